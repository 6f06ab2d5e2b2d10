//! Guest programs made of random instructions: arithmetic on live flags, memory operands of all sizes, branches and calls of all kinds.
//!
//! A program is a chain of blocks. Each block holds random instructions and ends by going on to one of the next blocks, directly or
//! through a table, so it always comes to an end; calls go to small leaves. All integer registers, the flags and a piece of memory go into
//! what the program prints. Which instructions come is decided by the seed alone.

use std::fmt::Write;

use crate::random::Random;

const BLOCKS: u64 = 150;
const LEAVES: u64 = 12;
/// How far a branch may skip.
const AHEAD: u64 = 4;
/// Bytes of memory that random operands reach, from rbp on.
const MEMORY: u64 = 1024;

/// All but rsp, and rbp, which points to the memory.
const REGISTERS: [[&str; 4]; 14] = [
    ["al", "ax", "eax", "rax"],
    ["cl", "cx", "ecx", "rcx"],
    ["dl", "dx", "edx", "rdx"],
    ["bl", "bx", "ebx", "rbx"],
    ["sil", "si", "esi", "rsi"],
    ["dil", "di", "edi", "rdi"],
    ["r8b", "r8w", "r8d", "r8"],
    ["r9b", "r9w", "r9d", "r9"],
    ["r10b", "r10w", "r10d", "r10"],
    ["r11b", "r11w", "r11d", "r11"],
    ["r12b", "r12w", "r12d", "r12"],
    ["r13b", "r13w", "r13d", "r13"],
    ["r14b", "r14w", "r14d", "r14"],
    ["r15b", "r15w", "r15d", "r15"],
];
const SIZES: [&str; 4] = ["byte", "word", "dword", "qword"];
const CONDITIONS: [&str; 16] = ["o", "no", "b", "ae", "e", "ne", "be", "a", "s", "ns", "p", "np", "l", "ge", "le", "g"];

const DRIVER: &str = r#"
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
enum { size = 2048 };
uint64_t state[16];
unsigned char *memory;
static _Alignas(64) unsigned char own[size];
void run(void);
int main(void)
{
    memory = SHARED ? mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0) : own;
    uint64_t hash = 0xcbf29ce484222325;
    for (unsigned i = 0; i < size; i++)
        memory[i] = (unsigned char)(i * 167 + 13);
    for (int round = 0; round < 300; round++)
    {
        state[round % 14] += (uint64_t)round * 0x9e3779b97f4a7c15;
        run();
        for (unsigned i = 0; i < sizeof state; i++)
            hash = (hash ^ ((unsigned char *)state)[i]) * 0x100000001b3;
        for (unsigned i = 0; i < size; i++)
            hash = (hash ^ memory[i]) * 0x100000001b3;
        if (round % 50 == 0)
            printf("%d %016llx\n", round, (unsigned long long)hash);
    }
    printf("%016llx\n", (unsigned long long)hash);
}
"#;

/// The C source of a program whose memory operands lie in shared or in private memory.
pub fn source(seed: u64, shared: bool) -> String {
    let mut generator = Generator { random: Random::new(seed), text: String::new() };
    generator.program();
    let lines: String = generator.text.lines().map(|line| format!("    \"{line}\\n\"\n")).collect();
    format!("#define SHARED {}\n{DRIVER}\nasm(\n{lines}    \".att_syntax\\n\");\n", u8::from(shared))
}

struct Generator {
    random: Random,
    text: String,
}

impl Generator {
    fn below(&mut self, bound: u64) -> u64 {
        self.random.bits() % bound
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len() as u64) as usize]
    }

    fn line(&mut self, line: &str) {
        let _ = writeln!(self.text, "{line}");
    }

    fn register(&mut self, size: usize) -> &'static str {
        REGISTERS[self.below(REGISTERS.len() as u64) as usize][size]
    }

    fn memory(&mut self, size: usize) -> String {
        // Unaligned ones too.
        let place = match self.below(4) {
            0 => format!("[rip + beside + {}]", self.below(MEMORY)),
            _ => format!("[rbp + {}]", self.below(MEMORY)),
        };
        format!("{} ptr {place}", SIZES[size])
    }

    fn operand(&mut self, size: usize) -> String {
        if self.below(3) == 0 { self.memory(size) } else { self.register(size).into() }
    }

    fn program(&mut self) {
        self.line(&format!(".intel_syntax noprefix\n.local beside\n.comm beside, {}, 64\n.text\n.globl run\nrun:", MEMORY + 8));
        for register in ["rbx", "rbp", "r12", "r13", "r14", "r15"] {
            self.line(&format!("push {register}"));
        }
        self.line("lea rbp, [rip + state]");
        for (index, register) in REGISTERS.iter().enumerate() {
            self.line(&format!("mov {}, [rbp + {}]", register[3], 8 * index));
        }
        self.line("mov rbp, [rip + memory]\ntest eax, eax");
        for block in 0..BLOCKS {
            self.line(&format!("block{block}:"));
            for _ in 0..self.below(6) {
                self.instruction();
            }
            self.end(block);
        }
        self.line(&format!("block{BLOCKS}:\npushfq\nlea rbp, [rip + state]"));
        for (index, register) in REGISTERS.iter().enumerate() {
            self.line(&format!("mov [rbp + {}], {}", 8 * index, register[3]));
        }
        self.line("pop rax\nand eax, 0x8d5\nmov [rbp + 120], rax");
        for register in ["r15", "r14", "r13", "r12", "rbp", "rbx"] {
            self.line(&format!("pop {register}"));
        }
        self.line("ret");
        for leaf in 0..LEAVES {
            self.line(&format!("leaf{leaf}:"));
            for _ in 0..self.below(4) {
                self.instruction();
            }
            self.line("ret");
        }
    }

    /// How a block goes on: only forwards.
    fn end(&mut self, block: u64) {
        let target = |generator: &mut Self| format!("block{}", (block + 1 + generator.below(AHEAD)).min(BLOCKS));
        match self.below(8) {
            0 => {}
            1 => {
                let target = target(self);
                self.line(&format!("jmp {target}"));
            }
            2 => {
                let leaf = self.below(LEAVES);
                self.line(&format!("call leaf{leaf}"));
            }
            3 => {
                // Through a register and through memory, flags kept.
                let (leaf, target, register) = (self.below(LEAVES), target(self), self.register(3));
                self.line(&format!("lea {register}, [rip + leaf{leaf}]\ncall {register}\nlea {register}, [rip + {target}]"));
                self.line(&format!("mov [rip + beside], {register}\njmp qword ptr [rip + beside]"));
            }
            4 => {
                let (a, b, register) = (target(self), target(self), self.register(3));
                let condition = self.pick(&CONDITIONS);
                self.line(&format!("set{condition} byte ptr [rbp + 1200]\nmovzx {register}, byte ptr [rbp + 1200]"));
                self.line(&format!(
                    "lea rcx, [rip + table{block}]\nlea rdx, [rip + {a}]\nmov [rcx], rdx\nlea rdx, [rip + {b}]\nmov [rcx + 8], rdx"
                ));
                if !["rcx", "rdx"].contains(&register) {
                    self.line(&format!("jmp qword ptr [rcx + {register} * 8]"));
                } else {
                    self.line("jmp qword ptr [rcx]");
                }
                self.line(&format!(".data\n.p2align 3\ntable{block}: .quad 0, 0\n.text"));
            }
            5 => {
                // A short loop that may end by its flags.
                let (size, condition) = (self.below(4) as usize, self.pick(&["", "e", "ne"]));
                let a = REGISTERS[2 + self.below(12) as usize][size];
                let b = self.operand(size);
                let rounds = 1 + self.below(9);
                self.line(&format!("mov ecx, {rounds}\nagain{block}:\nadd {a}, {b}\nloop{condition} again{block}"));
            }
            _ => {
                let (condition, target) = (self.pick(&CONDITIONS), target(self));
                self.line(&format!("j{condition} {target}"));
            }
        }
    }

    /// Follows an instruction of whose status flags only the carry is defined: what the others are is nobody's promise.
    fn define(&mut self) {
        let (name, to, from) = (self.pick(&["adc", "sbb"]), self.register(3), self.register(3));
        self.line(&format!("{name} {to}, {from}"));
    }

    fn instruction(&mut self) {
        let size = self.below(4) as usize;
        let wide = 1 + self.below(3) as usize;
        let (register, operand) = (self.register(size), self.operand(size));
        let (number, small) = (self.below(1 << 31) >> self.below(31), self.below(64));
        match self.below(22) {
            0 | 1 => {
                let name = self.pick(&["add", "adc", "sub", "sbb", "and", "or", "xor", "cmp", "mov"]);
                self.line(&format!("{name} {register}, {operand}"));
            }
            2 | 3 => {
                let (name, memory) =
                    (self.pick(&["add", "adc", "sub", "sbb", "and", "or", "xor", "cmp", "test", "mov"]), self.memory(size));
                self.line(&format!("{name} {memory}, {register}"));
            }
            4 => {
                let name = self.pick(&["add", "adc", "sub", "sbb", "and", "or", "xor", "cmp", "test"]);
                self.line(&format!("{name} {operand}, {}", number & 0x7f));
            }
            5 => {
                let name = self.pick(&["inc", "dec", "neg", "not"]);
                self.line(&format!("{name} {operand}"));
            }
            6 | 7 => {
                let name = self.pick(&["shl", "shr", "sar", "rol", "ror", "rcl", "rcr"]);
                let by = if small % 3 == 0 { "cl".into() } else { (small % 35).to_string() };
                self.line(&format!("{name} {operand}, {by}"));
            }
            8 => {
                let (to, from) = (self.register(wide), self.operand(wide));
                self.line(&format!("imul {to}, {from}"));
                self.define();
            }
            9 => {
                self.line(&format!("mul {operand}"));
                self.define();
            }
            10 => {
                let (name, operand) = (self.pick(&["bt", "bts", "btr", "btc"]), self.operand(wide));
                self.line(&format!("{name} {operand}, {}", small % 16));
                self.define();
            }
            11 => {
                let (name, to, from) = (self.pick(&["bsf", "bsr", "popcnt", "tzcnt", "lzcnt"]), self.register(wide), self.operand(wide));
                self.line(&format!("{name} {to}, {from}"));
                let (place, register) = (self.memory(0), self.register(3));
                self.line(&format!("setz {place}\ntest {register}, {register}"));
            }
            12 => {
                let (to, base, index) = (self.register(3), self.register(3), self.register(3));
                self.line(&format!("lea {to}, [{base} + {index} * {} + {number}]", 1 << (small % 4)));
            }
            13 => {
                let (name, to, from) = (self.pick(&["movzx", "movsx"]), self.register(wide.max(2)), self.operand((small % 2) as usize));
                self.line(&format!("{name} {to}, {from}"));
            }
            14 => {
                let condition = self.pick(&CONDITIONS);
                let (byte, to, from) = (self.operand(0), self.register(wide), self.operand(wide));
                self.line(&format!("set{condition} {byte}\ncmov{condition} {to}, {from}"));
            }
            15 => {
                let (memory, lock) = (self.memory(size), self.pick(&["", "lock "]));
                let name = self.pick(&["xadd", "cmpxchg"]);
                self.line(&format!("{lock}{name} {memory}, {register}"));
            }
            16 => self.line(&format!("xchg {operand}, {register}")),
            17 => {
                let name = self.pick(&["cdq", "cqo", "cwde", "cdqe", "cmc", "stc", "clc", "lahf", "sahf", "cbw", "cwd"]);
                self.line(name);
            }
            18 => {
                let (a, b) = (self.register(3), self.register(3));
                self.line(&format!("push {a}\npush {number}\npop {b}\npop {b}"));
            }
            19 => {
                let a = self.register(3);
                self.line(&format!("pushfq\npop {a}\nand {a}, 0x8d5\npush {a}\npopfq"));
            }
            20 => {
                let (a, b) = (self.register(3), self.memory(3));
                self.line(&format!(
                    "movq xmm0, {a}\nmovq xmm1, {b}\npaddd xmm0, xmm1\npxor xmm1, xmm0\nucomisd xmm0, xmm1\nmovq {a}, xmm1"
                ));
            }
            _ => {
                let (name, to, from) = (self.pick(&["shld", "shrd"]), self.operand(3), self.register(3));
                self.line(&format!("{name} {to}, {from}, {small}"));
            }
        }
    }
}
