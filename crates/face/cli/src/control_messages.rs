//! What goes beside the bytes of a message of a socket (cmsg(3)), parsed from untrusted bytes.

/// Bytes of `struct cmsghdr`.
const HEADER_BYTES: usize = 16;
const SOL_SOCKET: u32 = 1;
const SCM_RIGHTS: u32 = 1;

/// One of them.
#[derive(Debug, PartialEq, Eq)]
pub enum ControlMessage<'a> {
    Descriptors(Vec<i32>),
    Other { level: u32, kind: u32, content: &'a [u8] },
}

/// All that are whole.
pub fn control_messages(mut data: &[u8]) -> impl Iterator<Item = ControlMessage<'_>> {
    let half = |data: &[u8], at: usize| {
        data.get(at..at + 4).and_then(|data| data.try_into().ok()).map_or(0, u32::from_le_bytes)
    };
    std::iter::from_fn(move || {
        if data.len() < HEADER_BYTES {
            return None;
        }
        let len_bytes = (half(data, 0) as usize).max(HEADER_BYTES);
        let content = data.get(HEADER_BYTES..len_bytes)?;
        let (level, kind) = (half(data, 8), half(data, 12));
        data = data.get(len_bytes.next_multiple_of(8)..).unwrap_or_default();
        Some(match (level, kind) {
            (SOL_SOCKET, SCM_RIGHTS) => {
                ControlMessage::Descriptors(content.chunks_exact(4).map(|fd| half(fd, 0) as i32).collect())
            }
            _ => ControlMessage::Other { level, kind, content },
        })
    })
}

/// The descriptors among them.
pub fn passed_descriptors(data: &[u8]) -> Vec<i32> {
    let descriptors = |message| match message {
        ControlMessage::Descriptors(descriptors) => descriptors,
        ControlMessage::Other { .. } => Vec::new(),
    };
    control_messages(data).flat_map(descriptors).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(len_bytes: u64, kind: u32, content: &[u8]) -> Vec<u8> {
        let mut bytes = len_bytes.to_le_bytes().to_vec();
        bytes.extend(SOL_SOCKET.to_le_bytes());
        bytes.extend(kind.to_le_bytes());
        bytes.extend(content);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes
    }

    #[test]
    fn descriptors_are_found_among_others() {
        let two = [7i32.to_le_bytes(), 9i32.to_le_bytes()].concat();
        let data =
            [message(28, 2, &[1; 12]), message(24, SCM_RIGHTS, &two), message(20, SCM_RIGHTS, &two[..4])];
        assert_eq!(passed_descriptors(&data.concat()), [7, 9, 7]);
        let cut = message(400, SCM_RIGHTS, &two);
        assert_eq!(passed_descriptors(&cut), [0; 0], "longer than what is there");
        assert_eq!(passed_descriptors(&message(3, SCM_RIGHTS, &[])), [0; 0], "shorter than its header");
    }
}
