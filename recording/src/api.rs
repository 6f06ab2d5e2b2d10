//! The recording library's functions as system calls: each call of one is an event with a number that the kernel does not have.

/// The number of the first function; the others follow.
pub const API_FIRST: u32 = 0x0e00_0000;

/// Calls `$with! { … }` with all functions as `INDEX CONSTANT "name"`: those that start a recording, then the others.
///
/// A number stands in recordings, so it never changes its meaning.
#[macro_export]
macro_rules! api_functions {
    ($with:ident) => {
        $with! {
            starts {
                0 START "undolr_start"
                19 RECORDING_START "undolr_recording_start"
            }
            others {
                1 STOP "undolr_stop"
                2 SAVE "undolr_save"
                3 SAVE_ASYNC "undolr_save_async"
                4 POLL_COMPLETE "undolr_poll_saving_complete"
                5 POLL_PROGRESS "undolr_poll_saving_progress"
                6 SELECT_DESCRIPTOR "undolr_get_select_descriptor"
                7 DISCARD "undolr_discard"
                8 SAVE_ON_TERMINATION "undolr_save_on_termination"
                9 SAVE_ON_TERMINATION_CANCEL "undolr_save_on_termination_cancel"
                10 EVENT_LOG_SIZE_GET "undolr_event_log_size_get"
                11 EVENT_LOG_SIZE_SET "undolr_event_log_size_set"
                12 INCLUDE_SYMBOL_FILES "undolr_include_symbol_files"
                13 SHMEM_LOG_FILENAME_SET "undolr_shmem_log_filename_set"
                14 SHMEM_LOG_FILENAME_GET "undolr_shmem_log_filename_get"
                15 SHMEM_LOG_SIZE_SET "undolr_shmem_log_size_set"
                16 SHMEM_LOG_SIZE_GET "undolr_shmem_log_size_get"
                17 RECORDING_STOP "undolr_recording_stop"
                18 RECORDING_STOP_AND_SAVE "undolr_recording_stop_and_save"
            }
        }
    };
}

macro_rules! names {
    ($($group:ident { $($index:literal $constant:ident $name:literal)* })*) => {
        const NAMES: &[(u32, &str)] = &[$($(($index, $name)),*),*];
    };
}

api_functions!(names);

/// The function behind a system call number, if it is one of ours.
pub fn api_name(number: u32) -> Option<&'static str> {
    let index = number.checked_sub(API_FIRST)?;
    NAMES.iter().find(|(known, _)| *known == index).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_function_has_a_number_of_its_own() {
        for (at, (index, name)) in NAMES.iter().enumerate() {
            assert_eq!(api_name(API_FIRST + index), Some(*name));
            assert!(NAMES[..at].iter().all(|(other, _)| other != index), "{name}");
        }
        assert_eq!(api_name(API_FIRST + NAMES.len() as u32), None);
        assert_eq!(api_name(0), None);
    }
}
