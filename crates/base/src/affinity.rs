//! CPU affinity of threads.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Returns the CPUs that the calling thread may run on, in ascending order.
///
/// # Errors
/// If the kernel refuses.
pub fn allowed() -> std::io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

/// Pins the calling thread to one CPU.
///
/// # Errors
/// If the CPU does not exist, or the process may not use it.
pub fn pin(cpu: usize) -> std::io::Result<()> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(std::io::ErrorKind::InvalidInput.into());
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    Ok(sched_setaffinity(None, &set)?)
}

/// Lets the calling thread run on all CPUs that the process may use.
///
/// # Errors
/// If the kernel refuses.
pub fn unpin() -> std::io::Result<()> {
    let mut set = CpuSet::new();
    (0..CpuSet::MAX_CPU).for_each(|cpu| set.set(cpu));
    Ok(sched_setaffinity(None, &set)?)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_thread_can_be_pinned_to_a_cpu_it_may_use() {
        std::thread::spawn(|| {
            let allowed = super::allowed().unwrap();
            super::pin(allowed[0]).unwrap();
            assert_eq!(super::allowed().unwrap(), [allowed[0]]);
            assert!(super::pin(100_000).is_err());
            super::unpin().unwrap();
            assert!(super::allowed().unwrap().len() >= allowed.len());
        })
        .join()
        .unwrap();
    }
}
