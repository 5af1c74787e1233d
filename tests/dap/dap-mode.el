;;; Emacs' dap-mode drives `retrovane dap': emacs --batch -l dap-mode.el TOOL PROGRAM SOURCE
;;;
;;; It hunts for the demo's bug with the settings of docs/EDITORS.md, and goes back from the crash to the line that
;;; caused it. dap-mode is used as it is; what it has no command for is sent by its own function.

(package-initialize)
(require 'dap-mode)
;; Without it dap-mode asks for no exceptions: a fault in its version 0.7.
(require 'dap-ui)
(require 'cl-lib)

(defvar patience-s 120 "So long something may take to come.")

(defun tool-arguments ()
  (prog1 command-line-args-left (setq command-line-args-left nil)))

(defun wait-for (what is-so)
  "Waits until IS-SO gives something, and gives that."
  (let ((until (+ (float-time) patience-s)) found)
    (while (not (setq found (funcall is-so)))
      (when (> (float-time) until)
        (message "%s does not come" what)
        (kill-emacs 1))
      (accept-process-output nil 0.05))
    found))

(defun ask (session command &optional arguments)
  "What the adapter answers; its body."
  (let (answer)
    (dap--send-message (dap--make-request command arguments)
                       (lambda (response) (setq answer response))
                       session)
    (setq answer (wait-for command (lambda () answer)))
    (unless (gethash "success" answer)
      (message "%s: %s" command (gethash "message" answer)))
    (gethash "body" answer)))

(defvar stops 0 "Times at which it was told that the program stands.")
(advice-add 'dap--on-event :after
            (lambda (_ event)
              (when (string= (gethash "event" event) "stopped") (cl-incf stops))))

(defun place (session)
  "Function, and the text of its line."
  (let* ((thread (dap--debug-session-thread-id session))
         (frame (elt (gethash "stackFrames" (ask session "stackTrace" (list :threadId thread))) 0)))
    (with-current-buffer (find-file-noselect (gethash "path" (gethash "source" frame)))
      (goto-char (point-min))
      (forward-line (1- (gethash "line" frame)))
      (format "%s: %s" (gethash "name" frame)
              (string-trim (buffer-substring (line-beginning-position) (line-end-position)))))))

(defun moved (session command)
  "Sends a command that moves, and waits until the program stands."
  (let ((before stops))
    (ask session command (list :threadId (dap--debug-session-thread-id session)))
    (wait-for command (lambda () (and (> stops before) (dap--debug-session-thread-id session))))
    (message "%s: %s" command (place session))))

(pcase-let ((`(,tool ,program ,source) (tool-arguments)))
  (setq lsp-session-file (expand-file-name "sessions" temporary-file-directory)
        dap-breakpoints-file (expand-file-name "breakpoints" temporary-file-directory)
        dap-auto-configure-features nil)
  (lsp-workspace-folders-add (file-name-directory source))
  (find-file source)
  (goto-char (point-min))
  (search-forward "cache->buckets[bucket] = session;")
  (dap-breakpoint-add)
  (dap-register-debug-provider "retrovane"
                               (lambda (conf) (dap--put-if-absent conf :dap-server-path (list tool "dap"))))
  (dap-debug (list :type "retrovane" :request "launch" :name "Hunt" :program program :hunt 2000
                   :at "crash"))
  (let ((session (wait-for "a session" #'dap--cur-session)))
    (wait-for "the crash" (lambda () (and (> stops 0) (dap--debug-session-thread-id session))))
    (message "stopped: %s" (place session))
    (moved session "reverseContinue")
    (let* ((thread (dap--debug-session-thread-id session))
           (frame (elt (gethash "stackFrames" (ask session "stackTrace" (list :threadId thread))) 0)))
      (message "bucket: %s"
               (gethash "result" (ask session "evaluate" (list :expression "bucket" :frameId (gethash "id" frame))))))
    (moved session "stepBack")
    (moved session "next")
    (message "is running: %s" (if (dap--session-running session) "yes" "no"))
    (dap-disconnect session)
    (wait-for "the end" (lambda () (not (process-live-p (dap--debug-session-proc session)))))
    (message "gone: yes")))
