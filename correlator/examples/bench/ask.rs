//! The questions, and how long their answers take.
use crate::generate::{BASE, Random, place};
use correlator::{BlameOptions, Correlator, Moment, Query, Reader, RecordingIndex, Target};
use std::time::Instant;

/// Each question is asked so often, and the fastest counts: what else runs on the machine is not the question's doing.
const REPEAT: usize = 5;

/// At a random time of a random recording, at a place chosen like those of the accesses.
pub fn questions(reader: &Reader, count: usize) -> Vec<Query> {
    let recordings = reader.recordings().len().max(1) as u64;
    let ends: Vec<u64> = reader.recordings().iter().map(|recording| reader.counts(recording.index).committed.max(1)).collect();
    let mut random = Random(4_101_842_887_655_102_017);
    let question = |_| {
        let recording = random.next() % recordings;
        let bbcount = random.next() % ends[recording as usize];
        let target = Target::Address(BASE + place(&mut random));
        let time = Moment::At(correlator::Time { bbcount, pc: 0 });
        Query::new(RecordingIndex::new(recording as u32).expect("a recording"), time, target, 8)
    };
    (0..count).map(question).collect()
}

/// Median and 99th percentile over the questions, in µs, warm.
pub fn time(correlator: &Correlator, questions: &[Query], options: &BlameOptions) -> (f64, f64) {
    let fastest = |query: &Query| {
        let once = || {
            let start = Instant::now();
            std::hint::black_box(correlator.blame(query, options).expect("an answer"));
            start.elapsed().as_secs_f64() * 1e6
        };
        (0..REPEAT).map(|_| once()).fold(f64::MAX, f64::min)
    };
    let mut times: Vec<f64> = questions.iter().map(fastest).collect();
    times.sort_by(f64::total_cmp);
    (times[times.len() / 2], times[times.len() * 99 / 100])
}
