//! Giving up what is not needed.

use std::io;

use rustix::io::Errno;
use rustix::process::{DumpableBehavior, dumpable_behavior, geteuid, getuid, set_dumpable_behavior};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_keep_capabilities, set_no_new_privs, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid,
};

use super::Account;

/// The capabilities that are kept, if the process has them.
const KEPT: CapabilitySet = CapabilitySet::NET_RAW.union(CapabilitySet::NET_ADMIN);

/// Why nothing, or not everything, was given up. The process must end.
#[derive(Debug, thiserror::Error)]
pub enum DropError {
    /// Capabilities and ids are those of a thread: other threads would keep what they have.
    #[error("cannot give up privileges: there are {0} threads already")]
    Threads(usize),
    /// The system said no.
    #[error("cannot give up privileges: {what}: {source}")]
    System {
        /// The failed operation.
        what: &'static str,
        /// The error of the system.
        source: io::Error,
    },
}

/// The result for the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dropped {
    /// It was not root: it stays who it is.
    Unchanged,
    /// It became another user.
    Changed,
    /// It is root still, without root's powers.
    StillRoot,
}

/// Drops every capability except the ones that ports need, for ever, and changes to another user if the process is
/// root. It has to be called on the first thread, before there is a second.
///
/// # Errors
/// When there is another thread, or the system refuses something that it must not.
pub fn drop(account: Option<&Account>) -> Result<Dropped, DropError> {
    let system = |what: &'static str| move |source: Errno| DropError::System { what, source: source.into() };
    let threads = std::fs::read_dir("/proc/self/task").map(Iterator::count);
    match threads.map_err(|source| DropError::System { what: "counting threads", source })? {
        1 => {}
        threads => return Err(DropError::Threads(threads)),
    }
    let has = capabilities(None).map_err(system("reading capabilities"))?;
    let root = getuid().is_root() || geteuid().is_root();
    if has.effective.contains(CapabilitySet::SETPCAP) {
        bound().map_err(system("narrowing the bounding set"))?;
    }
    clear_ambient_capability_set().map_err(system("clearing the ambient set"))?;
    let account = account.filter(|account| root && !account.user.is_root());
    if let Some(Account { user, group, .. }) = account {
        let dumps = dumpable_behavior().map_err(system("reading whether memory may be dumped"))?;
        // Else the change of user takes all of them away.
        set_keep_capabilities(true).map_err(system("keeping capabilities"))?;
        set_thread_groups(&[]).map_err(system("leaving groups"))?;
        set_thread_res_gid(*group, *group, *group).map_err(system("changing the group"))?;
        set_thread_res_uid(*user, *user, *user).map_err(system("changing the user"))?;
        set_keep_capabilities(false).map_err(system("keeping capabilities"))?;
        // A change of user sets the system's default (`fs.suid_dumpable`), which may permit dumps with keys.
        if dumps == DumpableBehavior::NotDumpable {
            set_dumpable_behavior(dumps).map_err(system("forbidding core dumps"))?;
        }
    }
    let kept = has.permitted & KEPT;
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    set_capabilities(None, sets).map_err(system("dropping capabilities"))?;
    set_no_new_privs(true).map_err(system("refusing new privileges"))?;
    Ok(match (root, account) {
        (false, _) => Dropped::Unchanged,
        (true, Some(_)) => Dropped::Changed,
        (true, None) => Dropped::StillRoot,
    })
}

/// Takes all that is not kept out of the bounding set.
fn bound() -> Result<(), Errno> {
    for number in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        match capability_is_in_bounding_set(capability) {
            Ok(true) if !KEPT.contains(capability) => remove_capability_from_bounding_set(capability)?,
            Ok(_) => {}
            // The kernel knows no more of them.
            Err(Errno::INVAL) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
