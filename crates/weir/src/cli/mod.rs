//! The command line: one file for each subcommand.

mod acl;
mod allow;
mod bench;
mod capture;
mod check;
mod classify;
mod clear;
mod completions;
mod configuration;
mod connection;
mod diff;
mod doctor;
mod edit;
mod error;
mod exit;
mod explain;
mod key_input;
mod live;
mod log;
mod man;
mod output;
mod query;
mod reload;
mod replay;
mod rules;
mod run;
mod sa;
mod sav;
mod save;
mod schema;
mod services;
mod show;
mod spd;
mod text;
mod top;
mod trace;
mod undo;
mod watch;
mod watchdog;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

pub use exit::Exit;

/// A software gateway that validates, filters and secures packets.
#[derive(Debug, Parser)]
#[command(name = "weir", version, after_long_help = AFTER)]
pub struct Cli {
    /// The subcommand.
    #[command(subcommand)]
    pub command: Command,
}

/// The text below the long help and in the manual.
const AFTER: &str = "\
Exit codes:
  0  done
  1  failed at run time
  2  usage error
  3  the configuration is invalid
  4  no gateway to talk to, or it does not answer in time

Environment:
  WEIR_SOCKET  the control socket, as --socket
  WEIR_LOG     what `weir run` logs, as --log-level
  NO_COLOR     no colours";

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Reports every error in a configuration
    Check(check::Check),
    /// Runs the gateway until SIGTERM or SIGINT, then prints a summary; SIGHUP reloads
    Run(run::Run),
    /// Examines this host, and prints the command that mends each finding
    Doctor(doctor::Doctor),
    /// Sends captured packets through the gateway and reports the verdict on each
    Replay(replay::Replay),
    /// Reports the verdict on a packet, and the line of the configuration that decides
    Explain(explain::Explain),
    /// Reloads the configuration of the running gateway, all of it or nothing
    Reload(reload::Reload),
    /// Confirms a reload that goes back by itself otherwise
    Confirm(undo::Confirm),
    /// Takes back the last changes of a running gateway
    Undo(undo::Undo),
    /// Compares the running configuration with its file
    Diff(diff::Diff),
    /// Writes the running configuration into its files, or into another file
    Save(save::Save),
    /// Shows the state of a running gateway
    Show(show::Show),
    /// Shows interfaces, nodes, drops, rules, sources and flows of a running gateway, live
    Top(top::Top),
    /// Previews source address validation, and changes its entries in a running gateway
    Sav(sav::Sav),
    /// Changes the access lists of a running gateway
    Acl(acl::Acl),
    /// Changes the NAT rules of a running gateway
    Nat(rules::Nat),
    /// Changes the allowlists of a running gateway
    Allow(allow::Allow),
    /// Changes the bindings of hardware addresses of a running gateway
    Binding(rules::Binding),
    /// Changes the steer rules of a running gateway
    Steer(rules::Steer),
    /// Changes the sessions of classifier tables of a running gateway
    Classify(classify::Classify),
    /// Changes the pairs of SAs of a running gateway
    Sa(sa::Sa),
    /// Changes the SPDs of a running gateway
    Spd(spd::Spd),
    /// Prints the events of a running gateway as they come
    Watch(watch::Watch),
    /// Traces packets through the graph of a running gateway
    Trace(trace::Trace),
    /// Captures packets of a running gateway into a file
    Capture(capture::Capture),
    /// Clears the counters of a running gateway, or ends sessions
    Clear(clear::Clear),
    /// Measures the cost of forwarding on this machine
    Bench(bench::Bench),
    /// Prints the manual page, or writes one page for each command
    Man(man::Man),
    /// Prints the completions of a shell
    Completions(completions::Completions),
    /// Prints the JSON schema of configurations
    Schema(schema::Schema),
}

/// Runs the command that the process was started with.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.command {
        Command::Check(check) => check.run(),
        Command::Doctor(doctor) => return doctor.run().into(),
        Command::Run(run) => run.run(),
        Command::Replay(replay) => replay.run(),
        Command::Explain(explain) => explain.run(),
        Command::Reload(reload) => reload.run(),
        Command::Confirm(confirm) => confirm.run(),
        Command::Undo(undo) => undo.run(),
        Command::Diff(diff) => diff.run(),
        Command::Save(save) => save.run(),
        Command::Show(show) => show.run(),
        Command::Top(top) => top.run(),
        Command::Sav(sav) => sav.run(),
        Command::Acl(acl) => acl.run(),
        Command::Nat(nat) => nat.run(),
        Command::Allow(allow) => allow.run(),
        Command::Binding(binding) => binding.run(),
        Command::Steer(steer) => steer.run(),
        Command::Classify(classify) => classify.run(),
        Command::Sa(sa) => sa.run(),
        Command::Spd(spd) => spd.run(),
        Command::Watch(watch) => watch.run(),
        Command::Trace(trace) => trace.run(),
        Command::Capture(capture) => capture.run(),
        Command::Clear(clear) => clear.run(),
        Command::Bench(bench) => bench.run(),
        Command::Man(man) => man.run(Cli::command()),
        Command::Completions(completions) => completions.run(Cli::command()),
        Command::Schema(schema) => schema.run(),
    };
    error::conclude(result).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_well_formed() {
        Cli::command().debug_assert();
    }
}
