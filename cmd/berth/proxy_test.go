//go:build unix

package main

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"berth/shared/wire/transport"
)

// noCredentials hides this machine's AWS settings.
func noCredentials(t *testing.T) {
	t.Helper()
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE",
		"AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_ECS", "BERTH_STACK"} {
		t.Setenv(name, "")
		os.Unsetenv(name)
	}
	t.Setenv("AWS_CONFIG_FILE", os.DevNull)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", os.DevNull)
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
}

// The command gets a random key and the endpoint; its exit code is the proxy's.
func TestProxyRunsACommand(t *testing.T) {
	noCredentials(t)
	t.Setenv("AWS_SESSION_TOKEN", "of the caller")
	const script = `echo "$AWS_ENDPOINT_URL_ECS $AWS_ENDPOINT_URL_EKS $AWS_ACCESS_KEY_ID ${AWS_SESSION_TOKEN-none} $1"; exit 7`
	var out, errs bytes.Buffer
	code := runCommandLine([]string{"proxy", "--endpoint", "http://127.0.0.1:1", "--", "sh", "-c", script, "x",
		"--stack"},
		&out, &errs)
	want := regexp.MustCompile(`^(http://127\.0\.0\.1:[0-9]+) (http://127\.0\.0\.1:[0-9]+) (BERTH[A-Z0-9]{15}) none --stack\n$`)
	if m := want.FindStringSubmatch(out.String()); code != 7 || m == nil || m[1] != m[2] || errs.Len() > 0 {
		t.Errorf("exit code %d, output %q, errors %q", code, out.String(), errs.String())
	}
}

// The flags that say which Berth is meant may stand before the command.
func TestFlagsBeforeTheCommand(t *testing.T) {
	noCredentials(t)
	for _, args := range []string{
		"--endpoint http://127.0.0.1:1 proxy -- sh -c exit\t7",
		"--region=us-east-1 --endpoint=http://127.0.0.1:1 proxy sh -c exit\t7",
	} {
		var out, errs bytes.Buffer
		if code := runCommandLine(strings.Split(args, " "), &out, &errs); code != 7 {
			t.Errorf("berth %s: exit code %d, %s", args, code, errs.String())
		}
	}
	for args, want := range map[string]string{
		"--endpoint http://127.0.0.1:1 explain service web": "no server answers at http://127.0.0.1:1/",
		"--stack berth up": "unknown flag --stack", "--stack": "expected one of", "--stack x": "expected one of",
	} {
		var out, errs bytes.Buffer
		if code := runCommandLine(strings.Fields(args), &out, &errs); code == 0 || !strings.Contains(errs.String(), want) {
			t.Errorf("berth %s: exit code %d, %s, want %q", args, code, errs.String(), want)
		}
	}
}

// Without a command the exports are all that standard output has, and Ctrl-C is no failure.
func TestProxyPrintsExports(t *testing.T) {
	noCredentials(t)
	behind := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		transport.WriteAnswer(w, "application/x-amz-json-1.1", http.StatusOK, []byte(`{}`))
	}))
	defer behind.Close()
	out, in := io.Pipe()
	var errs bytes.Buffer
	done := make(chan int, 1)
	go func() { done <- runCommandLine([]string{"proxy", "--endpoint", behind.URL}, in, &errs) }()
	line := regexp.MustCompile(`^export (AWS_[A-Z_]+)=([^ ]+)$`)
	exports := map[string]string{}
	for lines := bufio.NewScanner(out); exports["AWS_SECRET_ACCESS_KEY"] == "" && lines.Scan(); {
		m := line.FindStringSubmatch(lines.Text())
		if m == nil {
			t.Fatalf("standard output has the line %q", lines.Text())
		}
		exports[m[1]] = m[2]
	}
	resp, err := http.Post(exports["AWS_ENDPOINT_URL_ECS"], "application/x-amz-json-1.1", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("an unsigned request is answered with %s", resp.Status)
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code := <-done; code != 0 || !strings.Contains(errs.String(), "Ctrl-C stops it") {
		t.Errorf("exit code %d, errors %q", code, errs.String())
	}
}

func TestProxyFlags(t *testing.T) {
	noCredentials(t)
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"--listen 0.0.0.0:1", 2, "expected a loopback address"},
		{"--keep-credentials", 2, "expected only with a command after --"},
		{"--endpoint https://api.example.com -- true", 1, "finding AWS credentials"},
		{"--keep-credentials --endpoint http://127.0.0.1:1 -- true", 1, "finding AWS credentials"},
		{"--endpoint http://127.0.0.1:1 -- no-such-program", 127, "no-such-program"},
	} {
		var out, errs bytes.Buffer
		code := runCommandLine(append([]string{"proxy"}, strings.Fields(c.args)...), &out, &errs)
		if code != c.code || !strings.Contains(errs.String(), c.says) {
			t.Errorf("%s: exit code %d, %q, want %d, %q", c.args, code, errs.String(), c.code, c.says)
		}
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIA")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "s")
	t.Setenv("AWS_REGION", "us-east-1")
	var out, errs bytes.Buffer
	if code := runCommandLine([]string{"proxy", "--endpoint", "https://api.example.com", "--", "true"}, &out, &errs); code != 1 ||
		!strings.Contains(errs.String(), "expected a function URL") {
		t.Errorf("exit code %d, %q", code, errs.String())
	}
}
