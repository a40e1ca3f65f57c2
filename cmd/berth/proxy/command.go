package proxy

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"

	"github.com/mattn/go-isatty"
)

// A Command is a child process.
type Command struct {
	Arguments   []string // the first is the program
	Environment []string
	Out, Err    io.Writer
}

// An ExitError says how the child process ended, if not with exit code 0.
type ExitError struct {
	// Code is the child's exit code; 128 and the signal's number if a signal ended it.
	Code int
	// Started is false if there was no such program.
	Started bool
	cause   error
}

// Error says what happened.
func (e *ExitError) Error() string { return e.cause.Error() }

// Unwrap returns the error behind this one.
func (e *ExitError) Unwrap() error { return e.cause }

// forwarded are the signals that the child gets, too. A terminal sends the first ones to the child
// itself.
var (
	forwarded    = []os.Signal{os.Interrupt, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP}
	fromTerminal = []os.Signal{os.Interrupt, syscall.SIGQUIT}
)

// RunCommand runs a child process with this process's standard input until it ends. Signals go to
// the child, which decides what to do. A program that could not be started, or did not end with
// exit code 0, is an [ExitError].
func RunCommand(c Command) error {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, forwarded...)
	defer signal.Stop(signals)
	child := exec.Command(c.Arguments[0], c.Arguments[1:]...) //nolint:gosec // the user's own command
	child.Env, child.Stdin, child.Stdout, child.Stderr = c.Environment, os.Stdin, c.Out, c.Err
	if err := child.Start(); err != nil {
		code := 126
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
			code = 127
		}
		return &ExitError{Code: code, cause: fmt.Errorf("starting the command: %w", err)}
	}
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()
	atTerminal := isatty.IsTerminal(os.Stdin.Fd())
	for {
		select {
		case s := <-signals:
			if !atTerminal || !slices.Contains(fromTerminal, s) {
				_ = child.Process.Signal(s) // a child that has ended needs none
			}
		case err := <-ended:
			return exitError(err)
		}
	}
}

func exitError(err error) error {
	var exited *exec.ExitError
	if err == nil || !errors.As(err, &exited) {
		return err
	}
	code := exited.ExitCode()
	if status, ok := exited.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		code = 128 + int(status.Signal())
	}
	return &ExitError{Code: code, Started: true, cause: err}
}
