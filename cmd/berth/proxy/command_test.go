//go:build unix

package proxy

import (
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
)

func TestExitCodes(t *testing.T) {
	for script, want := range map[string]int{"exit 0": 0, "exit 7": 7, "kill -KILL $$": 137} {
		err := RunCommand(Command{Arguments: []string{"sh", "-c", script}, Environment: os.Environ()})
		var exit *ExitError
		switch {
		case want == 0 && err != nil:
			t.Errorf("%s: %v", script, err)
		case want != 0 && (!errors.As(err, &exit) || exit.Code != want || !exit.Started):
			t.Errorf("%s: %v, want exit code %d", script, err, want)
		}
	}
	for program, want := range map[string]int{"no-such-program": 127, "/dev/null": 126} {
		var exit *ExitError
		if err := RunCommand(Command{Arguments: []string{program}}); !errors.As(err, &exit) || exit.Code != want ||
			exit.Started {
			t.Errorf("%s: %v, want exit code %d", program, err, want)
		}
	}
}

// A signal reaches the child, which may take its time; its exit code is the outcome.
func TestSignalsReachTheChild(t *testing.T) {
	for signal, want := range map[syscall.Signal]int{syscall.SIGTERM: 9, syscall.SIGHUP: 10} {
		out, in := io.Pipe()
		done := make(chan error, 1)
		go func() {
			done <- RunCommand(Command{Arguments: []string{"sh", "-c",
				`trap 'sleep 0.1; exit 9' TERM; trap 'exit 10' HUP; echo ready; while :; do sleep 0.02; done`},
				Environment: os.Environ(), Out: in})
		}()
		line := make([]byte, 16)
		if n, err := out.Read(line); err != nil || !strings.HasPrefix(string(line[:n]), "ready") {
			t.Fatalf("the child prints %q, %v", line[:n], err)
		}
		if err := syscall.Kill(os.Getpid(), signal); err != nil {
			t.Fatal(err)
		}
		var exit *ExitError
		if err := <-done; !errors.As(err, &exit) || exit.Code != want {
			t.Errorf("after %s: %v, want exit code %d", signal, err, want)
		}
	}
}
