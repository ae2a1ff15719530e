//! Random numbers as sysbench draws them: same generator, same distributions.

/// xoroshiro128+ with the rotation constants that sysbench uses (55, 14, 36).
#[derive(Debug, Clone)]
pub struct Random {
    state: [u64; 2],
}

impl Random {
    /// A generator whose state is spread from `seed` by splitmix64, the authors' advice
    /// (Blackman and Vigna).
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut mixed = seed;
        let mut next = || {
            mixed = mixed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = mixed;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        };
        Self { state: [next(), next()] }
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        let [s0, s1] = self.state;
        let result = s0.wrapping_add(s1);
        let mixed = s1 ^ s0;
        self.state = [s0.rotate_left(55) ^ mixed ^ (mixed << 14), mixed.rotate_left(36)];
        result
    }

    /// A number in [0, 1) from the top 52 bits.
    pub fn unit(&mut self) -> f64 {
        const STEP: f64 = 1.0 / (1u64 << 52) as f64;
        (self.bits() >> 12) as f64 * STEP
    }

    /// A uniform integer in 1 … `n`.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the product lies in 0 … n")]
    pub fn uniform(&mut self, n: u64) -> u64 {
        1 + (self.unit() * n as f64) as u64
    }

    /// Puts `items` into a random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = usize::try_from(self.uniform(last as u64 + 1) - 1).unwrap_or(0);
            items.swap(last, other);
        }
    }

    /// Appends `groups` groups of eleven uniform decimal digits joined by `-`: the text of the
    /// columns `c` (ten groups, 119 characters) and `pad` (five groups, 59 characters).
    pub fn digit_groups(&mut self, groups: usize, out: &mut Vec<u8>) {
        for group in 0..groups {
            if group > 0 {
                out.push(b'-');
            }
            self.eleven_digits(out);
        }
    }

    fn eleven_digits(&mut self, out: &mut Vec<u8>) {
        const DIGITS: usize = 11;
        const BOUND: u128 = 100_000_000_000;
        // The high half of a 64 × 37 bit product is uniform over 0 … 10^11 − 1 up to 2^-27.
        let mut value = ((u128::from(self.bits()) * BOUND) >> 64) as u64;
        let mut digits = [b'0'; DIGITS];
        for digit in digits.iter_mut().rev() {
            let units = (value % 10) as u8;
            *digit = b'0' + units;
            value /= 10;
        }
        out.extend_from_slice(&digits);
    }
}

/// Zipfian integers in 1 … n with P(r) ∝ r^−s, by rejection inversion (Hörmann and Derflinger,
/// "Rejection-inversion to generate variates from monotone discrete distributions", 1996).
#[derive(Debug, Clone)]
pub(super) struct Zipfian {
    n: f64,
    exponent: f64,
    integral_first: f64,
    integral_last: f64,
    squeeze: f64,
}

impl Zipfian {
    /// The distribution over 1 … `n` with exponent `exponent` > 0.
    #[must_use]
    pub(super) fn new(n: u64, exponent: f64) -> Self {
        let mut zipfian = Self { n: n as f64, exponent, integral_first: 0.0, integral_last: 0.0, squeeze: 0.0 };
        zipfian.integral_first = zipfian.integral(1.5) - 1.0;
        zipfian.integral_last = zipfian.integral(zipfian.n + 0.5);
        zipfian.squeeze = 2.0 - zipfian.integral_inverse(zipfian.integral(2.5) - zipfian.density(2.0));
        zipfian
    }

    /// Draws one.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the rank lies in 1 … n")]
    pub(super) fn draw(&self, random: &mut Random) -> u64 {
        loop {
            let u = self.integral_last + random.unit() * (self.integral_first - self.integral_last);
            let x = self.integral_inverse(u);
            let rank = x.round().clamp(1.0, self.n);
            if rank - x <= self.squeeze || u >= self.integral(rank + 0.5) - self.density(rank) {
                return rank as u64;
            }
        }
    }

    fn density(&self, x: f64) -> f64 {
        (-self.exponent * x.ln()).exp()
    }

    /// ∫ x^−s, written so that s = 1 needs no case of its own.
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        let t = (1.0 - self.exponent) * log;
        log * if t.abs() > 1e-8 { t.exp_m1() / t } else { 1.0 + t / 2.0 }
    }

    fn integral_inverse(&self, y: f64) -> f64 {
        let t = (y * (1.0 - self.exponent)).max(-1.0);
        (y * if t.abs() > 1e-8 { t.ln_1p() / t } else { 1.0 - t / 2.0 }).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_xoroshiro128_plus_of_2016() {
        // First outputs from the state (1, 2), computed by hand from the published recurrence.
        let mut random = Random { state: [1, 2] };
        assert_eq!(random.bits(), 3);
        // s0' = rotl(1, 55) ^ 3 ^ (3 << 14), s1' = rotl(3, 36)
        let s0 = (1u64 << 55) ^ 3 ^ (3 << 14);
        let s1 = 3u64 << 36;
        assert_eq!(random.bits(), s0.wrapping_add(s1));
    }

    #[test]
    fn uniform_covers_both_ends_evenly() {
        let mut random = Random::new(7);
        let mut counts = [0u32; 10];
        for _ in 0..100_000 {
            counts[usize::try_from(random.uniform(10)).unwrap() - 1] += 1;
        }
        // Standard deviation of a count is about 95.
        assert!(counts.iter().all(|&count| (9_500..10_500).contains(&count)), "{counts:?}");
    }

    #[test]
    fn zipfian_follows_its_law() {
        let (n, exponent, draws) = (1_000u64, 0.8, 400_000u32);
        let total: f64 = (1..=n).map(|rank| (rank as f64).powf(-exponent)).sum();
        let zipfian = Zipfian::new(n, exponent);
        let mut random = Random::new(11);
        let mut counts = vec![0u32; usize::try_from(n).unwrap() + 1];
        for _ in 0..draws {
            counts[usize::try_from(zipfian.draw(&mut random)).unwrap()] += 1;
        }
        assert_eq!(counts[0], 0);
        for rank in [1usize, 2, 3, 10, 100, 1000] {
            let expected = (rank as f64).powf(-exponent) / total * f64::from(draws);
            let deviation = (f64::from(counts[rank]) - expected) / expected.sqrt();
            assert!(deviation.abs() < 4.5, "rank {rank}: {} for {expected:.0}", counts[rank]);
        }
    }

    #[test]
    fn zipfian_with_exponent_one_works_too() {
        let zipfian = Zipfian::new(100, 1.0);
        let mut random = Random::new(3);
        assert!((0..10_000).map(|_| zipfian.draw(&mut random)).all(|rank| (1..=100).contains(&rank)));
    }

    #[test]
    fn texts_have_the_form_of_the_columns() {
        let mut random = Random::new(5);
        let mut text = Vec::new();
        random.digit_groups(10, &mut text);
        assert_eq!(text.len(), 119);
        for (index, byte) in text.iter().enumerate() {
            assert_eq!(*byte == b'-', index % 12 == 11, "position {index}");
            assert!(*byte == b'-' || byte.is_ascii_digit());
        }
        let mut pad = Vec::new();
        random.digit_groups(5, &mut pad);
        assert_eq!(pad.len(), 59);
    }
}
