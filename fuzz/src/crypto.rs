//! Engines of IPsec: all of them seal and open a packet in the same way, and refuse any other packet.

use weir_crypto::{Algorithm, Failure, Job, Key, Secret, engines};

/// The target.
pub(crate) fn fuzz(data: &[u8]) {
    let Some((&[choice, header, options, place], rest)) = data.split_first_chunk::<4>() else { return };
    let all = Algorithm::all();
    let algorithm = all[usize::from(choice) % all.len()];
    let octets =
        |count: usize| -> Vec<u8> { (0..count).map(|at| rest.get(at).map_or(at as u8, |&octet| octet)).collect() };
    let secret = Secret::new(&octets(algorithm.cipher_key_octets()), &octets(algorithm.integrity_key_octets()));
    let high = (options & 1 == 1).then_some(u32::from(options) << 8 | u32::from(place));
    let header = if high.is_some() { 8 } else { u32::from(header) };
    let (mut sealed, mut opened): (Option<Done>, Option<Done>) = (None, None);
    for engine in engines::all().iter().filter(|engine| engine.supports(algorithm)) {
        let key = engine.key(algorithm, &secret).expect("a secret of the right length");
        let work = |packet: &[u8], work: fn(&mut [Job<'_>])| run(&key, packet, header, high, work);
        let one = work(rest, weir_crypto::seal);
        let expected = sealed.get_or_insert_with(|| one.clone());
        assert_eq!(one, *expected, "{engine:?} {algorithm}: sealed");
        // The octets as they are, as a packet of a stranger.
        let other = work(rest, weir_crypto::open);
        let expected = opened.get_or_insert_with(|| other.clone());
        assert_eq!(other.1, expected.1, "{engine:?} {algorithm}: opened");
        let (packet, Ok(())) = one else { continue };
        assert_ne!(other.1, Ok(()), "{engine:?} {algorithm}: a forgery");
        let end = packet.len() - algorithm.icv_octets();
        let (plain, result) = work(&packet, weir_crypto::open);
        assert_eq!(result, Ok(()), "{engine:?} {algorithm}");
        assert_eq!(plain[..end], rest[..end], "{engine:?} {algorithm}");
        let mut changed = packet.clone();
        let at = usize::from(place) * 7 % packet.len();
        changed[at] ^= 1 << (options >> 5);
        assert_eq!(work(&changed, weir_crypto::open).1, Err(Failure::Forged), "{engine:?} {algorithm}");
    }
}

/// A packet that was worked on, and the result.
type Done = (Vec<u8>, Result<(), Failure>);

fn run(key: &Key, packet: &[u8], header: u32, high: Option<u32>, work: fn(&mut [Job<'_>])) -> Done {
    let mut packet = packet.to_vec();
    let mut jobs = [match high {
        Some(_) => Job::esp(key, &mut packet, high),
        None => Job::with_header(key, &mut packet, header),
    }];
    work(&mut jobs);
    let result = jobs[0].result();
    (packet, result)
}
