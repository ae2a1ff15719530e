//! How much the machine's speed varies by itself: work that is always the same, again and again.

use std::hint::black_box;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use super::Check;
use crate::domain::Finding;

/// Rounds of one piece of spinning: some tenths of a millisecond.
const ROUNDS: u32 = 200_000;

/// Round trips of one sample, which then takes about as long.
const TRIPS: u32 = 20;

/// About the size of a short query's messages.
const MESSAGE: usize = 64;

/// Longest wait for an answer from the same machine.
const PATIENCE: Duration = Duration::from_secs(2);

/// Fewest samples that a 99th percentile can be taken of.
const FEWEST: usize = 200;

/// How far samples of equal work may scatter: coefficient of variation, and how far the 99th percentile
/// lies above the median, both as shares.
struct Bounds {
    variation: f64,
    excess: f64,
}

/// The scatter of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Spread {
    /// Median in seconds.
    median: f64,
    /// Standard deviation by mean.
    variation: f64,
    /// 99th percentile minus median, by median.
    excess: f64,
}

impl Spread {
    /// `None` for too few samples.
    fn of(mut samples: Vec<f64>) -> Option<Self> {
        if samples.len() < FEWEST {
            return None;
        }
        samples.sort_by(f64::total_cmp);
        let count = samples.len() as f64;
        let mean = samples.iter().sum::<f64>() / count;
        let variance = samples.iter().map(|sample| (sample - mean).powi(2)).sum::<f64>() / (count - 1.0);
        let (median, p99) = (samples[samples.len() / 2], samples[samples.len() * 99 / 100]);
        Some(Self { median, variation: variance.sqrt() / mean, excess: p99 / median - 1.0 })
    }
}

/// Both series, each for `duration`.
pub(super) fn score(duration: Duration) -> [Finding; 2] {
    let spin = Check::new(
        "noise: spin loop",
        "the same work should take the same time; what scatters here scatters in \
        every slice",
    );
    let trips = Check::new(
        "noise: loopback",
        "every query is a round trip over the loopback; its scatter is in every \
        slice",
    );
    [
        judge(spin, Spread::of(spin_loop(duration)), 1.0, &Bounds { variation: 0.02, excess: 0.05 }),
        match round_trips(duration) {
            Ok(samples) => {
                let spread = Spread::of(samples);
                judge(trips, spread, f64::from(TRIPS), &Bounds { variation: 0.10, excess: 0.30 })
            }
            Err(error) => trips.unknown(format!("no round trips over 127.0.0.1: {error}")),
        },
    ]
}

fn judge(check: Check, spread: Option<Spread>, per_sample: f64, bounds: &Bounds) -> Finding {
    let Some(spread) = spread else {
        return check.unknown("too few samples in the time: the machine is very slow or very busy");
    };
    let found = format!(
        "coefficient of variation {:.1} %, 99th percentile {:.1} % above the median of {:.1} µs",
        100.0 * spread.variation,
        100.0 * spread.excess,
        1e6 * spread.median / per_sample
    );
    let calm = spread.variation <= bounds.variation && spread.excess <= bounds.excess;
    if calm { check.ok(found) } else { check.warn_only(found) }
}

/// Seconds of each piece of the same arithmetic.
fn spin_loop(duration: Duration) -> Vec<f64> {
    let start = Instant::now();
    let mut samples = Vec::new();
    while start.elapsed() < duration {
        let began = Instant::now();
        let mut state = black_box(0x9E37_79B9_7F4A_7C15_u64);
        for _ in 0..ROUNDS {
            // Marsaglia's xorshift: each round needs the one before.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
        }
        black_box(state);
        samples.push(began.elapsed().as_secs_f64());
    }
    samples
}

/// Seconds of each [`TRIPS`] messages to another thread and back.
fn round_trips(duration: Duration) -> io::Result<Vec<f64>> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    // Connected before anyone accepts: the kernel completes it from the backlog.
    let mut client = TcpStream::connect_timeout(&listener.local_addr()?, PATIENCE)?;
    let (server, _) = listener.accept()?;
    for stream in [&client, &server] {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
    }
    std::thread::scope(|scope| {
        scope.spawn(move || echo(server));
        let samples = client_side(&mut client, duration);
        // Ends the other thread.
        drop(client);
        samples
    })
}

fn client_side(stream: &mut TcpStream, duration: Duration) -> io::Result<Vec<f64>> {
    let start = Instant::now();
    let mut message = [7; MESSAGE];
    let mut samples = Vec::new();
    while start.elapsed() < duration {
        let began = Instant::now();
        for _ in 0..TRIPS {
            stream.write_all(&message)?;
            stream.read_exact(&mut message)?;
        }
        samples.push(began.elapsed().as_secs_f64());
    }
    Ok(samples)
}

/// Sends back what comes, until nothing comes any more.
fn echo(mut stream: TcpStream) {
    let mut message = [0; MESSAGE];
    while stream.read_exact(&mut message).and_then(|()| stream.write_all(&message)).is_ok() {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::FindingStatus;

    #[test]
    fn the_spread_is_relative_to_mean_and_median() {
        let steady = Spread::of(vec![2.0; 1000]).unwrap();
        assert_eq!(steady, Spread { median: 2.0, variation: 0.0, excess: 0.0 });
        // Two in a hundred take twice as long.
        let samples: Vec<f64> = (0..1000).map(|index| if index % 50 == 0 { 2.0 } else { 1.0 }).collect();
        let spread = Spread::of(samples).unwrap();
        assert!((spread.excess - 1.0).abs() < 1e-9 && (spread.variation - 0.137).abs() < 0.001, "{spread:?}");
        assert_eq!(Spread::of(vec![1.0; FEWEST - 1]), None);
    }

    #[test]
    fn scatter_beyond_either_bound_is_a_warning() {
        let bounds = Bounds { variation: 0.02, excess: 0.05 };
        let status = |variation, excess| {
            judge(Check::new("x", "y"), Some(Spread { median: 1e-3, variation, excess }), 1.0, &bounds).status
        };
        assert_eq!(status(0.01, 0.04), FindingStatus::Ok);
        assert_eq!(status(0.03, 0.04), FindingStatus::Warn);
        assert_eq!(status(0.01, 0.06), FindingStatus::Warn);
        assert_eq!(judge(Check::new("x", "y"), None, 1.0, &bounds).status, FindingStatus::Unknown);
    }

    #[test]
    fn both_series_give_samples() {
        let short = Duration::from_millis(50);
        assert!(spin_loop(short).iter().all(|seconds| *seconds > 0.0));
        assert!(!round_trips(short).unwrap().is_empty());
    }
}
