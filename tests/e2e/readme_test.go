//go:build unix

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/tests/process"
	"berth/tests/servicemodel"
)

const root = "../.."

// defaultEndpoint is the endpoint in README.md, the default of `berth up`.
const defaultEndpoint = "http://127.0.0.1:5252"

// TestReadme runs the commands of README.md with the real AWS CLI against `berth up`, as a newcomer
// would, and checks what they print.
func TestReadme(t *testing.T) {
	needsAWS(t)
	commands := shellCommands(sectionOf(t, "README.md", "## Try it"))
	berth := startBerth(t)
	shell := newShell(t, 2*time.Minute)
	var ran []string
	for _, command := range commands {
		if strings.HasPrefix(command, "make ") {
			continue // what berth stands for, and how to check the code
		}
		out := shell.runCommand(strings.ReplaceAll(command, defaultEndpoint, berth))
		for _, check := range readmeChecks {
			if strings.HasPrefix(command, check.command) {
				ran = append(ran, check.command)
				check.output(t, out)
			}
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	for _, check := range readmeChecks {
		if !slices.Contains(ran, check.command) {
			t.Errorf("README.md no longer shows %q", check.command)
		}
	}
}

func needsAWS(t *testing.T) {
	t.Helper()
	if out, err := exec.Command("aws", "--version").CombinedOutput(); err != nil {
		t.Skipf("no aws CLI: %v %s", err, bytes.TrimSpace(out))
	}
}

// readmeChecks are the commands that README.md must contain, and what each must print.
var readmeChecks = []struct {
	command string
	output  func(t *testing.T, out string)
}{
	{"aws ecs create-cluster", func(t *testing.T, out string) {
		var got struct {
			Cluster struct {
				ClusterName, Status               string
				RegisteredContainerInstancesCount int
			}
		}
		readJSON(t, out, &got)
		if c := got.Cluster; c.ClusterName != "default" || c.Status != "ACTIVE" ||
			c.RegisteredContainerInstancesCount != 6 {
			t.Errorf("got %+v", c)
		}
	}},
	{"aws ecs register-task-definition", func(t *testing.T, out string) {
		var got struct {
			TaskDefinition struct{ TaskDefinitionArn, Status string }
		}
		readJSON(t, out, &got)
		if d := got.TaskDefinition; !strings.HasSuffix(d.TaskDefinitionArn, ":task-definition/web:1") ||
			d.Status != "ACTIVE" {
			t.Errorf("got %+v", d)
		}
	}},
	{"aws ecs create-service", func(t *testing.T, out string) {
		var got struct {
			Service struct {
				ServiceArn, Status string
				DesiredCount       int
			}
		}
		readJSON(t, out, &got)
		if s := got.Service; !strings.HasSuffix(s.ServiceArn, ":service/default/web") || s.Status != "ACTIVE" ||
			s.DesiredCount != 4 {
			t.Errorf("got %+v", s)
		}
	}},
	{"aws ecs wait services-stable", func(t *testing.T, out string) {
		if out != "" {
			t.Errorf("got %q", out)
		}
	}},
	{"aws ecs describe-services --services web --query 'services[0].[runningCount, events[].message]'",
		func(t *testing.T, out string) {
			var got []any
			readJSON(t, out, &got)
			if len(got) != 2 || got[0] != 4.0 || !strings.Contains(fmt.Sprint(got[1]),
				"(service web) has reached a steady state.") {
				t.Errorf("got %v", got)
			}
		}},
	{"aws ecs list-tasks", func(t *testing.T, out string) {
		var got struct{ TaskArns []string }
		readJSON(t, out, &got)
		if len(got.TaskArns) != 4 || !strings.Contains(got.TaskArns[0], ":task/default/") {
			t.Errorf("got %v", got.TaskArns)
		}
	}},
	{"aws ecs describe-tasks", func(t *testing.T, out string) {
		on := map[string]bool{}
		for line := range strings.Lines(out) {
			fields := strings.Fields(line)
			if len(fields) != 3 || fields[1] != "RUNNING" {
				t.Fatalf("got %q", line)
			}
			on[fields[2]] = true
		}
		if len(on) != 4 {
			t.Errorf("four tasks run on %d instances", len(on))
		}
	}},
	{"aws ecs update-service --service web --desired-count 100", func(t *testing.T, out string) {
		if out != "100" {
			t.Errorf("got %q", out)
		}
	}},
	{"aws ecs describe-services --services web --query 'services[0].events[0].message'",
		func(t *testing.T, out string) {
			for _, want := range []string{"(service web) was unable to place a task",
				"insufficient CPU (needs 256 units, best free 0)"} {
				if !strings.Contains(out, want) {
					t.Errorf("%s does not say %q", out, want)
				}
			}
		}},
	{"aws ecs update-service --service web --desired-count 0 && aws ecs delete-service",
		func(t *testing.T, out string) {
			in := json.NewDecoder(strings.NewReader(out))
			for _, want := range []string{"ACTIVE", "DRAINING"} {
				var got struct{ Service struct{ Status string } }
				if err := in.Decode(&got); err != nil || got.Service.Status != want {
					t.Errorf("got %+v, %v, want %s", got, err, want)
				}
			}
		}},
}

func readJSON(t *testing.T, out string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(out), into); err != nil {
		t.Fatalf("%v in %q", err, out)
	}
}

// readDocument returns a document of the project.
func readDocument(t *testing.T, document string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, document))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// sectionOf returns the part of a document from a heading to the next one of its level.
func sectionOf(t *testing.T, document, heading string) string {
	t.Helper()
	_, section, found := strings.Cut(readDocument(t, document), "\n"+heading+"\n")
	if !found {
		t.Fatalf("%s has no section %q", document, heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	return section
}

// firstWords matches the first line of commands that set up the AWS CLI, use it, or store its
// output in a variable, of Berth's own command, also behind a prompt, of other programs, and of files that
// printf writes.
var firstWords = regexp.MustCompile(
	`^ {0,2}(\$ )?([A-Z_]+=\S+ )*(export AWS_|[A-Z]+=\$\(aws |aws [a-z]|berth( [a-z-]|$)|` +
		`(curl|go|make|podman|sam|tar) [a-z-]|printf ')`)

// shellCommands finds the commands in the blocks of a Markdown text, indented or fenced, without
// prompts and comments. A line that ends in a backslash, or within quotes, continues on the next.
func shellCommands(text string) (commands []string) {
	command, fence := "", ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "```") {
			if fence == "" {
				fence = line
			} else {
				fence = ""
			}
		}
		code, indented := strings.CutPrefix(line, "    ")
		if !indented && fence != "```" && fence != "```sh" || command == "" && !firstWords.MatchString(code) {
			continue
		}
		if code, _, _ = strings.Cut(code, "  #"); command == "" {
			code = strings.TrimPrefix(strings.TrimLeft(code, " "), "$ ")
		}
		command += strings.TrimRight(code, " ")
		if strings.HasSuffix(command, `\`) || unclosed(command) {
			command += "\n"
			continue
		}
		commands, command = append(commands, command), ""
	}
	return commands
}

// unclosed reports whether a command ends within quotes.
func unclosed(command string) bool {
	var quote rune
	escaped := false
	for _, r := range command {
		switch {
		case escaped:
			escaped = false
		case r == '\\' && quote != '\'':
			escaped = true
		case quote == 0 && (r == '\'' || r == '"'):
			quote = r
		case r == quote:
			quote = 0
		}
	}
	return quote != 0
}

func TestShellCommands(t *testing.T) {
	got := shellCommands("Text\n\n    export AWS_A=b   # c\n\n    aws ecs x \\\n        '{\"a\": 1}'\n" +
		"    aws ecs y '[\n    1]'\n    aws ecs w \"\\\"it's\n    1\"\n\n" +
		"    aws CLI\n    berth:metrics = x\n    B=$(aws eks z)\n" +
		"    $ berth status\n    1 problem\n         aws ecs output\n    A=b berth doctor\n\naws ecs none\n" +
		"- List\n\n      aws ecs v \\\n        1\n\n" +
		"```\n$ berth whatif\n2 tasks\n```\n```sh\naws ecs u\n```\n```go\ngo none\n```\naws ecs none\n")
	want := []string{"export AWS_A=b", "aws ecs x \\\n    '{\"a\": 1}'", "aws ecs y '[\n1]'", "aws ecs w \"\\\"it's\n1\"",
		"B=$(aws eks z)", "berth status", "A=b berth doctor", "aws ecs v \\\n    1", "berth whatif", "aws ecs u"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A shell runs commands one by one. Variables that one command exports are set for the next.
type shell struct {
	t   *testing.T
	env []string
	// dir is where commands run, if not in the test's folder.
	dir string
	// timeout is how long one command may take.
	timeout time.Duration
}

func newShell(t *testing.T, patience time.Duration) *shell {
	return &shell{t: t, timeout: patience, env: append(os.Environ(), "AWS_PAGER=", "AWS_CONFIG_FILE="+os.DevNull,
		"AWS_SHARED_CREDENTIALS_FILE="+os.DevNull)}
}

var (
	exported = regexp.MustCompile(`[A-Z_]+=[^ #]+`)
	assigned = regexp.MustCompile(`^([A-Z]+)=\$\(`)
)

func (s *shell) runCommand(command string) string {
	s.t.Helper()
	if strings.HasPrefix(command, "export ") {
		s.env = append(s.env, exported.FindAllString(command, -1)...)
		return ""
	}
	if to := assigned.FindStringSubmatch(command); to != nil {
		out := s.runCommand("printf %s " + strings.TrimPrefix(command, to[1]+"="))
		s.env = append(s.env, to[1]+"="+out)
		return out
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), s.timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Env, cmd.Dir = s.env, s.dir
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		s.t.Fatalf("%s\n%v: %s", command, err, errs.String())
	}
	return strings.TrimSpace(out.String())
}

// buildBerth builds the command as `make run` does, and returns its path.
func buildBerth(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "berth")
	buildCommand(t, bin, "cmd/berth")
	return bin
}

// startBerth runs `berth up` as `make run` does, but on a free port and with its data elsewhere,
// and returns its endpoint.
func startBerth(t *testing.T) string {
	t.Helper()
	bin := buildBerth(t)
	help, err := exec.Command(bin, "up", "--help").Output()
	if want := strings.TrimPrefix(defaultEndpoint, "http://"); err != nil || !strings.Contains(string(help), want) {
		t.Errorf("berth up does not listen on %s by default (%v): %s", want, err, help)
	}
	return runBerth(t, bin, "--data", filepath.Join(t.TempDir(), "data"))
}

// runBerth runs `berth up` with flags on a free port, and returns its endpoint.
func runBerth(t *testing.T, bin string, flags ...string) string {
	t.Helper()
	cmd := exec.Command(bin, append([]string{"up", "--listen", "127.0.0.1:0"}, flags...)...)
	return servicemodel.ForTests(t, root).Proxy(t, process.StartServer(t, cmd))
}
