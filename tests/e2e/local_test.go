//go:build unix

package e2e

import (
	"bufio"
	"bytes"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/tests/ministack"
)

// TestMakeLocal starts what `make local` starts, follows its instructions with the real AWS CLI and
// Berth's own command line, and stops it by Ctrl-C.
func TestMakeLocal(t *testing.T) {
	if why := ministack.WhyUnavailable(); why != "" {
		t.Skip(why)
	}
	needsAWS(t)
	bin := filepath.Join(t.TempDir(), "local")
	buildCommand(t, bin, "tests/local")
	cmd := exec.Command(bin, "-nodes", "3", "-log", filepath.Join(t.TempDir(), "log"))
	cmd.Dir = root
	var errs bytes.Buffer
	cmd.Stderr = &errs
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil { // a command has failed, and ended the test
			_ = cmd.Process.Signal(syscall.SIGINT)
			_ = cmd.Wait()
		}
	})
	s := newShell(t, 2*time.Minute)
	said, commands := "", []string{}
	for in := bufio.NewScanner(stdout); !strings.Contains(said, "Ctrl-C") && in.Scan(); {
		line := strings.TrimSpace(in.Text())
		said += line + "\n"
		if strings.HasPrefix(line, "export ") {
			s.runCommand(line)
		} else if strings.Contains(line, "berth ") && strings.HasPrefix(line, "/") {
			commands = append(commands, line)
		}
	}
	if len(commands) != 4 {
		t.Errorf("it shows %d commands of berth: %q", len(commands), commands)
	}
	for _, command := range commands {
		out := s.runCommand(command)
		switch {
		case strings.Contains(command, "list-container-instances"):
			if n := strings.Count(out, ":container-instance/default/"); n != 3 {
				t.Errorf("%d instances, want 3: %s", n, out)
			}
		case strings.Contains(command, "explain cluster"):
			if !strings.HasPrefix(out, "3 instances ") {
				t.Errorf("%s: %s", command, out)
			}
		case strings.Contains(command, "chaos kill"):
			if !strings.HasPrefix(out, "The machine of instance ") {
				t.Errorf("%s: %s", command, out)
			}
		}
	}
	_ = cmd.Process.Signal(syscall.SIGINT)
	if err := cmd.Wait(); err != nil || errs.Len() > 0 {
		t.Errorf("it ended with %v: %s\n%s", err, errs.String(), said)
	}
	for _, v := range s.env {
		if endpoint, ok := strings.CutPrefix(v, "AWS_ENDPOINT_URL="); ok {
			if resp, err := http.Get(endpoint); err == nil {
				resp.Body.Close()
				t.Errorf("%s still answers", endpoint)
			}
		}
	}
}
