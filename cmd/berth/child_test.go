//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"

	"berth/shared/awsapi"
)

// childRole is the environment variable with the role in which this test binary runs again.
const childRole = "BERTH_TEST_CHILD"

// TestMain lets the test binary be the program that it tests.
func TestMain(m *testing.M) {
	switch os.Getenv(childRole) {
	case "":
		os.Exit(m.Run())
	case "berth":
		go func() {
			// The test holds the other end: the child must not outlive it.
			_, _ = io.Copy(io.Discard, os.Stdin)
			os.Exit(99)
		}()
		os.Exit(runCommandLine(os.Args[1:], os.Stdout, os.Stderr))
	case "completed":
		os.Exit(runCommandLine(os.Args[1:], os.Stdout, os.Stderr)) // its input is the shell's
	case "killed":
		os.Exit(runUntilKilled(os.Args[1:]))
	}
	os.Exit(98)
}

// child is this test binary as another process.
type child struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines chan string // of its standard output
	ended chan struct{}
	alive io.Closer // its standard input: closing it ends the child

	mu     sync.Mutex
	stdout []string
	stderr bytes.Buffer
}

// childTimeout is how long a test waits for a child.
const childTimeout = time.Minute

func startChild(t *testing.T, role string, args ...string) *child {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &child{t: t, cmd: exec.Command(self, args...), lines: make(chan string, 100), ended: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), childRole+"="+role)
	c.cmd.Stderr = &lockedWriter{c: c}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if c.alive, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go c.readOutput(stdout)
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		<-c.ended
	})
	return c
}

type lockedWriter struct{ c *child }

func (w *lockedWriter) Write(p []byte) (int, error) {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	return w.c.stderr.Write(p)
}

func (c *child) readOutput(stdout io.Reader) {
	in := bufio.NewScanner(stdout)
	for in.Scan() {
		c.mu.Lock()
		c.stdout = append(c.stdout, in.Text())
		c.mu.Unlock()
		select {
		case c.lines <- in.Text():
		default: // the test reads only the first lines
		}
	}
	_ = c.cmd.Wait()
	c.alive.Close()
	close(c.ended)
}

// outputSoFar returns what the child has written so far.
func (c *child) outputSoFar() (stdout []string, stderr string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.stdout...), c.stderr.String()
}

// waitForEndpoint waits for the line that says where the API is.
func (c *child) waitForEndpoint() string {
	c.t.Helper()
	at, served := c.endpointOrEnd()
	if !served {
		stdout, stderr := c.outputSoFar()
		c.t.Fatalf("it ended before it served: %q, %s", stdout, stderr)
	}
	return at
}

// endpointOrEnd waits for the line that says where the API is, or for the child's end.
func (c *child) endpointOrEnd() (endpoint string, served bool) {
	c.t.Helper()
	late := time.After(childTimeout)
	for {
		select {
		case line := <-c.lines:
			if at := strings.Index(line, "http://"); at >= 0 {
				return line[at:], true
			}
		case <-c.ended:
			return "", false
		case <-late:
			c.t.Fatal("it does not serve")
		}
	}
}

// waitForExit waits for the child's end and returns its exit code, -1 for a signal.
func (c *child) waitForExit() int {
	c.t.Helper()
	select {
	case <-c.ended:
	case <-time.After(childTimeout):
		stdout, stderr := c.outputSoFar()
		c.t.Fatalf("it does not end: %q, %s", stdout, stderr)
	}
	return c.cmd.ProcessState.ExitCode()
}

// interrupt sends Ctrl-C and returns the exit code.
func (c *child) interrupt() int {
	c.t.Helper()
	if err := c.cmd.Process.Signal(syscall.SIGINT); err != nil {
		c.t.Fatal(err)
	}
	return c.waitForExit()
}

// ecsClient returns a client of the AWS SDK for an endpoint. It does not retry.
func ecsClient(endpoint string) *ecs.Client {
	return ecs.New(ecs.Options{
		BaseEndpoint: aws.String(endpoint), Region: "us-east-1", RetryMaxAttempts: 1, HTTPClient: awsapi.HTTP{},
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "any", SecretAccessKey: "any"}, nil
		}),
	})
}

// stepContext returns a context for the calls of one step of a test.
func stepContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), childTimeout)
	t.Cleanup(cancel)
	return ctx
}

// postRequest makes a call as a browser or curl does.
func postRequest(t *testing.T, endpoint, operation, body string, headers ...[2]string) (status int, answer string) {
	t.Helper()
	r, err := http.NewRequestWithContext(stepContext(t), http.MethodPost, endpoint, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-amz-json-1.1")
	r.Header.Set("X-Amz-Target", "AmazonEC2ContainerServiceV20141113."+operation)
	for _, h := range headers {
		if h[0] == "Host" {
			r.Host = h[1]
		}
		r.Header.Set(h[0], h[1])
	}
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	all, err := io.ReadAll(got.Body)
	if err != nil {
		t.Fatal(err)
	}
	return got.StatusCode, string(all)
}

// awaitRunning waits until a service has n running tasks.
func awaitRunning(t *testing.T, api *ecs.Client, service string, n int32) {
	t.Helper()
	ctx, pause := stepContext(t), time.NewTicker(20*time.Millisecond)
	defer pause.Stop()
	state := "it is not there"
	for {
		out, err := api.DescribeServices(context.WithoutCancel(ctx),
			&ecs.DescribeServicesInput{Services: []string{service}})
		if err != nil {
			t.Fatal(err)
		}
		if len(out.Services) == 1 {
			s := out.Services[0]
			if s.DesiredCount == n && s.RunningCount == n && s.PendingCount == 0 {
				return
			}
			state = fmt.Sprintf("it wants %d, runs %d and has %d on the way", s.DesiredCount, s.RunningCount,
				s.PendingCount)
			for _, e := range s.Events[:min(3, len(s.Events))] {
				state += "; " + *e.Message
			}
		}
		select {
		case <-ctx.Done():
			t.Fatalf("service %s does not reach %d tasks: %s", service, n, state)
		case <-pause.C:
		}
	}
}

// taskARNs returns the tasks of service web.
func taskARNs(t *testing.T, api *ecs.Client) []string {
	t.Helper()
	out, err := api.ListTasks(stepContext(t), &ecs.ListTasksInput{ServiceName: aws.String("web")})
	if err != nil {
		t.Fatal(err)
	}
	return out.TaskArns
}
