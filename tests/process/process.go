// Package process starts the project's own servers for tests. A server that is started here is
// interrupted after the test and must then end by itself, so that no process is left behind. Start
// at [StartServer].
package process

import (
	"bufio"
	"bytes"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// StartServer starts a program and returns the first address that it prints. It is an error if the
// program writes to its standard error before it has ended.
func StartServer(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var errs bytes.Buffer
	// Cleanups run last to first: this one runs after the program has ended.
	t.Cleanup(func() {
		if errs.Len() > 0 {
			t.Errorf("%s writes to its standard error: %s", cmd, errs.String())
		}
	})
	said := ""
	for in := Start(t, cmd, &errs); in.Scan(); {
		said += in.Text() + "\n"
		if at := strings.Index(in.Text(), "http://"); at >= 0 {
			return in.Text()[at:]
		}
	}
	t.Fatalf("%s does not say where it is: %q", cmd, said)
	return ""
}

// Start starts a program that serves until it is interrupted, and returns the lines of its standard
// output. Its standard error goes to errs. After the test the program is interrupted, and it is an
// error if it then ends with another exit code than 0.
func Start(t *testing.T, cmd *exec.Cmd, errs io.Writer) *bufio.Scanner {
	t.Helper()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGINT)
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s ended with %v: %s", cmd, err, errs)
		}
	})
	return bufio.NewScanner(stdout)
}
