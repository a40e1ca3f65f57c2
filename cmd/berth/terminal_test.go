//go:build linux

package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"berth/shared/cluster"
)

// openTerminal returns both ends of a pseudo-terminal: what a program has, and what a person sees.
func openTerminal(t *testing.T) (program, person *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = person.Close() })
	if err := unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = program.Close() })
	return program, person
}

// onTerminal runs a command line on a terminal, and returns what a person sees.
func onTerminal(t *testing.T, args ...string) string {
	t.Helper()
	program, person := openTerminal(t)
	const end = "(end of the output)"
	seen := make(chan string)
	go func() {
		var out strings.Builder
		for lines := bufio.NewScanner(person); lines.Scan() && !strings.Contains(lines.Text(), end); {
			out.WriteString(lines.Text() + "\n")
		}
		seen <- out.String()
	}()
	runCommandLine(args, program, program)
	_, _ = fmt.Fprintln(program, end)
	return <-seen
}

// On a terminal, states have colours, unless NO_COLOR is set; the columns stay in line all the
// same.
func TestTableOnATerminal(t *testing.T) {
	rows := balanceRows()
	for _, r := range rows {
		if i, ok := r.(*cluster.Instance); ok && i.ID == "i-2" {
			i.AgentConnected = false
		}
	}
	args := []string{"instance", "--snapshot", writeTestFile(t, "cluster.rows", savedRows(t, rows...))}
	_, plain, _ := berth(args...)
	t.Setenv("NO_COLOR", "")
	colored := onTerminal(t, args...)
	if !strings.Contains(colored, "\x1b[34mACTIVE\x1b[0m") || strings.Count(colored, "\x1b[1;31m") != 1 {
		t.Errorf("on a terminal: %q", colored)
	}
	for _, code := range []string{"\x1b[34m", "\x1b[33m", "\x1b[1;31m", "\x1b[0m"} {
		colored = strings.ReplaceAll(colored, code, "")
	}
	if colored != plain {
		t.Errorf("without its colours:\n%s\nwant\n%s", colored, plain)
	}
	t.Setenv("NO_COLOR", "1")
	if got := onTerminal(t, args...); got != plain {
		t.Errorf("with NO_COLOR: %q", got)
	}
}

// A bash that has read the script of `berth completion bash` asks berth what comes next.
func TestCompletionInAShell(t *testing.T) {
	shell, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is not installed")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if err := os.Symlink(self, folder+"/berth"); err != nil {
		t.Fatal(err)
	}
	program, person := openTerminal(t)
	ctx, cancel := context.WithTimeout(t.Context(), childTimeout)
	defer cancel()
	c := exec.CommandContext(ctx, shell, "--norc", "--noprofile", "-i")
	c.Env = append(os.Environ(), "PATH="+folder+":"+os.Getenv("PATH"), childRole+"=completed", "TERM=dumb", "PS1=$ ",
		"HISTFILE=")
	c.Stdin, c.Stdout, c.Stderr = program, program, program
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cancel(); _ = c.Wait() }()
	_ = program.Close() // so that reading ends when the shell does
	lines, all := bufio.NewScanner(person), ""
	// say types something, and returns the first line of output with this beginning.
	say := func(typed, beginning string) string {
		if _, err := fmt.Fprint(person, typed); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() {
			all += lines.Text() + "\n"
			if strings.HasPrefix(lines.Text(), beginning) {
				return lines.Text()
			}
		}
		t.Fatalf("the shell has ended without %q:\n%s", beginning, all)
		return ""
	}
	say("source <(berth completion bash); echo rea''dy\n", "ready")
	// A tab completes the word. The finished line is then made the argument of echo.
	if got := say("berth expl\t\x01echo got: \n", "got: "); !strings.HasPrefix(got, "got: berth explain") {
		t.Errorf("bash completes \"berth expl\" to %q:\n%s", got, all)
	}
}
