package ministack

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	// Region and Account are the emulator's defaults.
	Region  = "us-east-1"
	Account = "000000000000"
	// AccessKey and SecretKey are those of the account's root user.
	AccessKey = "test"
	SecretKey = "test"
)

//go:embed serve.py
var serve string

// Options configure the emulator.
type Options struct {
	// EnforceIAM checks every request's signature, and every call against the caller's policies.
	EnforceIAM bool
	// Environment, as NAME=value, is added to the emulator's own and inherited by its functions.
	// CallBack is where functions reach AWS; the default is the emulator itself. Port is where it
	// listens; 0 chooses a free one.
	Environment []string
	CallBack    string
	Port        int
	// Log gets the output of the emulator and its functions. Nil drops it.
	Log io.Writer
}

// A Server is a running emulator.
type Server struct {
	// Endpoint is http://127.0.0.1:PORT.
	Endpoint string

	dir   string
	stdin io.Closer
	cmd   *exec.Cmd
	ended chan struct{}
}

// WhyUnavailable says why the emulator cannot run here, or returns "".
func WhyUnavailable() string {
	root, err := ProjectRoot()
	if err == nil {
		_, err = os.Stat(pythonPath(root))
	}
	if err != nil {
		return "MiniStack is not there: `make test` and `make local` fetch it where Python is"
	}
	return ""
}

// ProjectRoot returns the project's root: the folder with go.mod, at or above the working folder.
func ProjectRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("%s is not in the project", dir)
		}
	}
}

// pythonPath returns the interpreter of the emulator's virtual environment.
func pythonPath(root string) string {
	return filepath.Join(root, ".cache", "venv", "ministack", "bin", "python")
}

// Start starts an empty emulator. It ends with [Server.Stop], and with this process.
func Start(ctx context.Context, o Options) (*Server, error) {
	port := o.Port
	if port == 0 {
		var err error
		if port, err = FreePort(); err != nil {
			return nil, fmt.Errorf("finding a free port: %w", err)
		}
	}
	dir, err := os.MkdirTemp("", "ministack-")
	if err != nil {
		return nil, err
	}
	s := &Server{Endpoint: fmt.Sprintf("http://127.0.0.1:%d", port), dir: dir, ended: make(chan struct{})}
	if err := s.runProcess(ctx, o, port); err != nil {
		return nil, errors.Join(fmt.Errorf("starting MiniStack: %w", err), os.RemoveAll(dir))
	}
	return s, nil
}

func (s *Server) runProcess(ctx context.Context, o Options, port int) error {
	root, err := ProjectRoot()
	if err != nil {
		return err
	}
	s.cmd = exec.Command(pythonPath(root), "-c", serve) //nolint:gosec // our own command
	s.cmd.Dir = s.dir
	s.cmd.Env = s.environment(o, port)
	detachProcess(s.cmd)
	if s.stdin, err = s.cmd.StdinPipe(); err != nil {
		return err
	}
	out, in, err := os.Pipe()
	if err != nil {
		return err
	}
	s.cmd.Stdout, s.cmd.Stderr = in, in
	err = errors.Join(s.cmd.Start(), in.Close())
	if err != nil {
		return errors.Join(err, out.Close())
	}
	go func() {
		_ = s.cmd.Wait()
		close(s.ended)
	}()
	log := o.Log
	if log == nil {
		log = io.Discard
	}
	ready := make(chan error, 1)
	go func() {
		defer out.Close()
		in := bufio.NewReader(out)
		ready <- awaitLine(in, "Running on http://", log)
		_, _ = io.Copy(log, in)
	}()
	select {
	case err = <-ready:
	case <-ctx.Done():
		err = ctx.Err()
	case <-time.After(time.Minute):
		err = errors.New("it does not come up")
	}
	if err != nil {
		s.endProcess()
	}
	return err
}

// environment leaves out this machine's AWS settings, so that nothing can reach a real account.
func (s *Server) environment(o Options, port int) []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "AWS_") {
			env = append(env, v)
		}
	}
	callBack := o.CallBack
	if callBack == "" {
		callBack = s.Endpoint
	}
	env = append(env, fmt.Sprintf("GATEWAY_PORT=%d", port), "BIND_HOST=127.0.0.1", "TMPDIR="+s.dir,
		"STATE_DIR="+filepath.Join(s.dir, "state"), "S3_DATA_DIR="+filepath.Join(s.dir, "s3"),
		"AWS_ENDPOINT_URL="+callBack, "AWS_ACCESS_KEY_ID="+AccessKey, "AWS_SECRET_ACCESS_KEY="+SecretKey,
		"AWS_DEFAULT_REGION="+Region, "PYTHONUNBUFFERED=1")
	if o.EnforceIAM {
		env = append(env, "AUTH=true")
	}
	return append(env, o.Environment...)
}

// awaitLine reads lines until one contains the text. If the output ends early, the error contains
// what was printed.
func awaitLine(in *bufio.Reader, text string, log io.Writer) error {
	var said strings.Builder
	for {
		line, err := in.ReadString('\n')
		_, _ = io.WriteString(log, line)
		said.WriteString(line)
		if strings.Contains(line, text) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("it ended:\n%s", said.String())
		}
	}
}

// Stop ends the emulator and its functions, and removes their files.
func (s *Server) Stop() error {
	s.endProcess()
	return os.RemoveAll(s.dir)
}

// endProcess asks the process to end, and kills it if it does not.
func (s *Server) endProcess() {
	_ = s.stdin.Close()
	select {
	case <-s.ended:
	case <-time.After(10 * time.Second):
		_ = s.cmd.Process.Kill()
		<-s.ended
	}
}

// FreePort returns a loopback port on which nothing listened a moment ago.
func FreePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
