//! Routes of other sources than the files: the kernel's tables, and forwarding plane managers. A thread for each source
//! keeps its routes, and offers them to the engine.

mod desk;
mod feed;
mod fib;
mod fpm;
mod kernel;
mod orders;
mod question;
pub(crate) mod state;
mod thread;

pub(crate) use fpm::listen;
pub(crate) use question::Own;
pub(crate) use thread::Threads;
