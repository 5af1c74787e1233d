"""Outside of a live session everything fails in the same way."""

import errno
import unittest

import retrovane


class Outside(unittest.TestCase):
    def test_nothing_works_and_nothing_is_harmed(self):
        self.assertFalse(retrovane.live())
        self.assertFalse(retrovane.replaying())
        checkpoint = retrovane.Checkpoint(0)
        calls = [
            retrovane.checkpoint,
            checkpoint.rollback,
            checkpoint.replay,
            checkpoint.discard,
            lambda: checkpoint.rollbacks,
            checkpoint.check,
            lambda: checkpoint.lost,
        ]
        for call in calls:
            with self.subTest(call=call), self.assertRaises(retrovane.NotLive) as caught:
                call()
            self.assertEqual(caught.exception.errno, errno.ENOSYS)

    def test_checkpoints_are_numbers(self):
        self.assertEqual(retrovane.Checkpoint(3), retrovane.Checkpoint(3))
        self.assertNotEqual(retrovane.Checkpoint(3), retrovane.Checkpoint(4))
        self.assertEqual(repr(retrovane.Checkpoint(3)), "Checkpoint(3)")


if __name__ == "__main__":
    unittest.main()
