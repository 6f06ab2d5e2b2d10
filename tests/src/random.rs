//! Numbers that look random and are the same in every run: xorshift64*.

pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        // Any state but 0.
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// 56 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        // The lower bits of such a generator are weak.
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 8
    }

    /// From 0 to `bound`, exclusive; 0 if that is empty.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.bits() % bound.max(1) as u64) as usize
    }
}
