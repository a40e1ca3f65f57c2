// Package lambda runs a function's bootstrap binary without Lambda. It serves the runtime API,
// through which the binary asks for events and answers them.
package lambda

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Function is what to run.
type Function struct {
	Name, Binary string
	// Environment is the whole environment, as NAME=value. The variables that Lambda itself sets
	// are added.
	Environment []string
	// Log receives what the function prints. It may be nil.
	Log io.Writer
	// Timeout bounds the handling of one event; 0 means a minute.
	Timeout time.Duration
}

// Error is a function's answer to an event that it could not handle.
type Error struct {
	Type    string `json:"errorType"`
	Message string `json:"errorMessage"`
}

func (e *Error) Error() string { return e.Type + ": " + e.Message }

// Runtime is one running environment of a function. It handles one event at a time.
type Runtime struct {
	function Function
	server   *http.Server
	cmd      *exec.Cmd
	ended    chan struct{}

	events chan invocation
	mu     sync.Mutex
	wait   map[string]chan answer // by request id
	count  int
}

type invocation struct {
	id       string
	event    []byte
	deadline time.Time
}

type answer struct {
	body []byte
	err  error
}

// api is the version of the runtime API, which its paths begin with.
const api = "/2018-06-01/runtime/"

// Start starts the binary, which then asks for its first event.
func Start(f Function) (*Runtime, error) {
	if f.Timeout == 0 {
		f.Timeout = time.Minute
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &Runtime{function: f, ended: make(chan struct{}), events: make(chan invocation),
		wait: map[string]chan answer{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+api+"invocation/next", r.next)
	mux.HandleFunc("POST "+api+"invocation/{id}/response", r.response)
	mux.HandleFunc("POST "+api+"invocation/{id}/error", r.failure)
	mux.HandleFunc("POST "+api+"init/error", r.failure)
	r.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = r.server.Serve(listener) }()
	r.cmd = exec.Command(f.Binary) //nolint:gosec // the caller's
	r.cmd.Env = append(f.Environment, "AWS_LAMBDA_RUNTIME_API="+listener.Addr().String(), "_HANDLER=bootstrap",
		"AWS_LAMBDA_FUNCTION_NAME="+f.Name, "AWS_LAMBDA_FUNCTION_VERSION=$LATEST",
		"AWS_LAMBDA_FUNCTION_MEMORY_SIZE=512",
		"AWS_LAMBDA_LOG_GROUP_NAME=local", "AWS_LAMBDA_LOG_STREAM_NAME=local")
	r.cmd.Stdout, r.cmd.Stderr = f.Log, f.Log
	if err := r.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("starting function %s: %w", f.Name, err), r.server.Close())
	}
	go func() {
		_ = r.cmd.Wait()
		close(r.ended)
	}()
	return r, nil
}

// Invoke lets the function handle an event and returns its answer. A [*Error] is the function's
// own.
func (r *Runtime) Invoke(ctx context.Context, event []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, r.function.Timeout)
	defer cancel()
	deadline, _ := ctx.Deadline()
	r.mu.Lock()
	r.count++
	in := invocation{id: "local-" + strconv.Itoa(r.count), event: event, deadline: deadline}
	done := make(chan answer, 1)
	r.wait[in.id] = done
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.wait, in.id)
	}()
	select {
	case r.events <- in:
	case <-ctx.Done():
		return nil, fmt.Errorf("function %s does not ask for an event: %w", r.function.Name, ctx.Err())
	case <-r.ended:
		return nil, fmt.Errorf("function %s ended before its first event: %s", r.function.Name, r.cmd.ProcessState)
	}
	select {
	case a := <-done:
		return a.body, a.err
	case <-ctx.Done():
		return nil, fmt.Errorf("function %s: %w", r.function.Name, ctx.Err())
	case <-r.ended:
		return nil, fmt.Errorf("function %s ended: %s", r.function.Name, r.cmd.ProcessState)
	}
}

func (r *Runtime) next(w http.ResponseWriter, req *http.Request) {
	select {
	case in := <-r.events:
		w.Header().Set("Lambda-Runtime-Aws-Request-Id", in.id)
		w.Header().Set("Lambda-Runtime-Deadline-Ms", strconv.FormatInt(in.deadline.UnixMilli(), 10))
		w.Header().Set("Lambda-Runtime-Invoked-Function-Arn",
			"arn:aws:lambda:us-east-1:000000000000:function:"+r.function.Name)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(in.event)
	case <-req.Context().Done():
	}
}

func (r *Runtime) response(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	r.answer(req.PathValue("id"), answer{body: body, err: err})
	w.WriteHeader(http.StatusAccepted)
}

func (r *Runtime) failure(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	e := &Error{}
	if err := json.Unmarshal(body, e); err != nil {
		e = &Error{Type: "unknown", Message: strings.TrimSpace(string(body))}
	}
	r.answer(req.PathValue("id"), answer{err: e})
	w.WriteHeader(http.StatusAccepted)
}

func (r *Runtime) answer(id string, a answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if done := r.wait[id]; done != nil {
		done <- a
		delete(r.wait, id)
	}
}

// Close ends the function.
func (r *Runtime) Close() error {
	_ = r.cmd.Process.Kill()
	<-r.ended
	return r.server.Close()
}
