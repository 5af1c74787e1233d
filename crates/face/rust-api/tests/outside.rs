//! Outside of a live session everything fails in the same way.

use retrovane::{Checkpoint, Error, in_session, is_replaying};

#[test]
fn nothing_works_and_nothing_is_harmed() {
    assert!(!in_session());
    assert_eq!(Checkpoint::take(), Err(Error::NoSession));
    let checkpoint = Checkpoint::from_id(0);
    assert_eq!(checkpoint.rollback(), Error::NoSession);
    assert_eq!(checkpoint.replay(), Err(Error::NoSession));
    assert_eq!(checkpoint.rollbacks(), Err(Error::NoSession));
    assert_eq!(checkpoint.discard(), Err(Error::NoSession));
    assert_eq!(checkpoint.check(&mut [0; 64]), Err(Error::NoSession));
    assert_eq!(checkpoint.lost(&mut []), Err(Error::NoSession));
    assert!(!is_replaying());
}

#[test]
fn errors_are_errnos_and_sentences() {
    assert_eq!(Error::NoSession.errno(), 38);
    assert_eq!(Error::Other(22).errno(), 22);
    let error: Box<dyn std::error::Error> = Box::new(Error::Unknown);
    assert_eq!(error.to_string(), "there is no such checkpoint");
}
