//go:build unix

package console_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// browser is a Chromium that is driven through pipes, by the DevTools protocol.
type browser struct {
	in      io.Writer
	out     *bufio.Reader
	session string
	last    int
	faults  []string // what the page's console has got
}

// startBrowser starts Chromium with an empty page. The test is skipped where it is not installed.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("Chromium is not installed: apt-get install chromium")
	}
	commands, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	answers, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	profile := makeProfile(t)
	command := exec.CommandContext(t.Context(), path, "--headless=new", "--no-sandbox", "--disable-gpu",
		"--remote-debugging-pipe", "--user-data-dir="+profile, "about:blank")
	command.ExtraFiles = []*os.File{commands, out}
	command.WaitDelay = 10 * time.Second
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	b := &browser{in: in, out: bufio.NewReader(answers)}
	t.Cleanup(func() {
		_ = command.Wait() // the test's context has ended it
		for _, f := range []*os.File{commands, in, answers, out} {
			_ = f.Close()
		}
	})
	_ = commands.Close()
	_ = out.Close()
	var target struct{ TargetID string }
	b.call(t, "Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.call(t, "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	b.call(t, "Runtime.enable", nil, nil)
	b.call(t, "Log.enable", nil, nil)
	return b
}

// makeProfile returns a folder for the browser's profile. The browser's processes may write to it
// for a moment after its first process has ended, so it is removed until nothing is left.
func makeProfile(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "chromium")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		pause := time.NewTicker(20 * time.Millisecond)
		defer pause.Stop()
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end); <-pause.C {
			if err = os.RemoveAll(folder); err == nil {
				return
			}
		}
		t.Errorf("removing the browser's profile: %v", err)
	})
	return folder
}

// call sends a command and waits for its answer. Errors that the page logs meanwhile are kept.
func (b *browser) call(t *testing.T, method string, params, into any) {
	t.Helper()
	if err := b.try(t, method, params, into); err != nil {
		t.Fatal(err)
	}
}

// errLeft means that another page took the place of the one a command was for. The browser says so with
// leftMessage.
var errLeft = errors.New("the page was left before the browser answered")

const leftMessage = "Inspected target navigated or closed"

// try is like call, and returns the error that the browser answers: [errLeft] or one that names the method.
func (b *browser) try(t *testing.T, method string, params, into any) error {
	t.Helper()
	b.last++
	message := map[string]any{"id": b.last, "method": method}
	if params != nil {
		message["params"] = params
	}
	if b.session != "" {
		message["sessionId"] = b.session
	}
	text, err := json.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.in.Write(append(text, 0)); err != nil {
		t.Fatal(err)
	}
	for {
		line, err := b.out.ReadBytes(0)
		if err != nil {
			t.Fatalf("%s: %v", method, err)
		}
		var got struct {
			ID     int
			Method string
			Result json.RawMessage
			Error  *struct{ Message string }
			Params json.RawMessage
		}
		if err := json.Unmarshal(line[:len(line)-1], &got); err != nil {
			t.Fatal(err)
		}
		switch {
		case got.ID == b.last && got.Error != nil && got.Error.Message == leftMessage:
			return errLeft
		case got.ID == b.last && got.Error != nil:
			return fmt.Errorf("%s: %s", method, got.Error.Message)
		case got.ID == b.last:
			if into != nil {
				if err := json.Unmarshal(got.Result, into); err != nil {
					t.Fatal(err)
				}
			}
			return nil
		case got.Method == "Log.entryAdded" || got.Method == "Runtime.exceptionThrown" ||
			got.Method == "Runtime.consoleAPICalled":
			b.faults = append(b.faults, string(got.Params))
		}
	}
}

// open shows a page.
func (b *browser) open(t *testing.T, url string) {
	t.Helper()
	b.call(t, "Page.navigate", map[string]any{"url": url}, nil)
}

// evaluate returns the text that an expression of JavaScript gives.
func (b *browser) evaluate(t *testing.T, expression string) string {
	t.Helper()
	text, err := b.tryToEvaluate(t, expression)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// tryToEvaluate is like evaluate, and returns [errLeft] if the page is left before it has answered.
func (b *browser) tryToEvaluate(t *testing.T, expression string) (string, error) {
	t.Helper()
	var out struct{ Result struct{ Value any } }
	err := b.try(t, "Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true}, &out)
	text, _ := out.Result.Value.(string)
	return text, err
}

// leave evaluates an expression that opens another page, which may happen before the browser answers.
func (b *browser) leave(t *testing.T, expression string) {
	t.Helper()
	if _, err := b.tryToEvaluate(t, expression+`, ""`); err != nil && !errors.Is(err, errLeft) {
		t.Fatal(err)
	}
}

// pageText is the text of a page that has loaded: until then it may lack its style.
const pageText = "document.readyState === 'complete' ? document.body.innerText : ''"

// await waits until the page, with its style, contains a text.
func (b *browser) await(t *testing.T, text string) {
	t.Helper()
	pause := time.NewTicker(50 * time.Millisecond)
	defer pause.Stop()
	page := ""
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); <-pause.C {
		var err error
		page, err = b.tryToEvaluate(t, pageText)
		if err != nil && !errors.Is(err, errLeft) {
			t.Fatal(err)
		}
		if strings.Contains(page, text) {
			return
		}
	}
	t.Fatalf("%q does not appear in\n%s", text, page)
}
