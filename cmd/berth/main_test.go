//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/google/go-cmp/cmp"
)

// berth runs a command line to its end in this process.
func berth(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = runCommandLine(args, &out, &errs)
	return code, out.String(), errs.String()
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{nil, {"--help"}, {"-h"}} {
		code, out, errs := berth(args...)
		if code != 0 || errs != "" {
			t.Errorf("berth %q: exit code %d, %q", args, code, errs)
		}
		for _, want := range []string{"Examples:", "berth replay --compress 20000", "up ", "replay ", "version "} {
			if !strings.Contains(out, want) {
				t.Errorf("berth %q does not say %q:\n%s", args, want, out)
			}
		}
	}
	for command, want := range map[string][]string{
		"up": {"Examples:", "berth up --ephemeral", `--listen="127.0.0.1:5252"`, "--nodes=6", "--zones=3",
			"--data=", "--seed=1"},
		"replay":  {"Examples:", "berth replay --compress 100000", "--nodes=", "--tasks=", "--compress=1", "--seed=1"},
		"version": {"--json"},
	} {
		code, out, _ := berth(command, "--help")
		for _, w := range want {
			if code != 0 || !strings.Contains(out, w) {
				t.Errorf("berth %s --help: exit code %d, want 0 and %q in:\n%s", command, code, w, out)
			}
		}
	}
}

func TestVersion(t *testing.T) {
	code, out, _ := berth("version")
	if code != 0 || !strings.HasPrefix(out, "berth ") || !strings.Contains(out, " go1.") {
		t.Errorf("exit code %d, %q", code, out)
	}
	code, out, _ = berth("version", "--json")
	var got struct{ Version, Go string }
	if err := json.Unmarshal([]byte(out), &got); code != 0 || err != nil || !strings.HasPrefix(got.Go, "go1.") {
		t.Errorf("exit code %d, %q: %v", code, out, err)
	}
}

// The flag --version prints what the command does, with any other flag and without one.
func TestVersionFlag(t *testing.T) {
	_, want, _ := berth("version")
	for _, args := range [][]string{{"--version"}, {"up", "--version"}} {
		if code, out, errs := berth(args...); code != 0 || out != want || errs != "" {
			t.Errorf("berth %q: exit code %d, %q, %q, want %q", args, code, out, errs, want)
		}
	}
}

// A shell puts the command line into COMP_LINE, and gets each word that may stand there next.
func TestCompletion(t *testing.T) {
	for line, want := range map[string][]string{
		"berth ":                    {"up", "explain", "completion"},
		"berth expl":                {"explain"},
		"berth explain ":            {"task", "service", "cluster", "instance"},
		"berth up --ep":             {"--ephemeral"},
		"berth completion ":         {"bash", "fish", "zsh"},
		"berth throttle web --clus": {"--cluster"},
	} {
		t.Setenv("COMP_LINE", line)
		code, out, errs := berth()
		if code != 0 || errs != "" {
			t.Errorf("%q: exit code %d, %q", line, code, errs)
		}
		got := strings.Fields(out)
		for _, w := range want {
			if !slices.Contains(got, w) {
				t.Errorf("%q is completed by %q, want %q among them", line, got, w)
			}
		}
	}
}

func TestCompletionScripts(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		code, out, _ := berth("completion", shell)
		if code != 0 || !strings.Contains(out, "complete ") || !strings.Contains(out, "berth") {
			t.Errorf("%s: exit code %d, %q", shell, code, out)
		}
	}
	if code, _, errs := berth("completion", "tcsh"); code != 2 || !strings.Contains(errs, "tcsh") {
		t.Errorf("tcsh: exit code %d, %q", code, errs)
	}
}

// Every mistake on the command line ends with exit code 2 before anything happens. The message
// names what is wrong.
func TestMistakes(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, c := range []struct {
		args string
		want []string // flag, value, expectation
	}{
		{"frob", []string{"frob"}},
		{"throttle web --cluster a/b", []string{"--cluster", `"a/b"`, "1 to 255"}},
		{"up extra", []string{"extra"}},
		{"up --bogus", []string{"--bogus"}},
		{"up --nodes", []string{"--nodes"}},
		{"up --nodes many", []string{`--nodes is "many", expected a whole number`}},
		{"up --nodes -1", []string{"--nodes is -1, expected 0 to 5000"}},
		{"up --nodes 2 --zones -1", []string{"--zones is -1, expected 1 to 6"}},
		{"up --nodes=-1", []string{"--nodes", "-1", "0 to 5000"}},
		{"up --nodes 5001", []string{"--nodes", "5001", "0 to 5000"}},
		{"up --speed 5 --data there", []string{"--speed 5", "--ephemeral", "--data", "there"}},
		{"up --ephemeral --data there", []string{"--ephemeral", "--data", "there"}},
		{"chaos", []string{"kind", "kill", "zone-out", "--list"}},
		{"chaos break", []string{`"break"`, "kill", "zone-out", "--list"}},
		{"chaos kill --list", []string{`"kill"`, "--list"}},
		{"chaos kill --service web", []string{"--service", "exit or unhealthy"}},
		{"chaos exit 1234 --service web", []string{"--service", "without a task"}},
		{"chaos exit --exit-code 256", []string{"--exit-code", "256", "0 to 255"}},
		{"chaos slow --seconds 3601", []string{"--seconds", "3601", "0 to 3600"}},
		{"chaos kill --cluster a/b", []string{"--cluster", `"a/b"`, "letters"}},
		{"up --ephemeral --speed 0.5", []string{"--speed", "0.5", "1 to 100"}},
		{"up --zones 7", []string{"--zones", "7", "1 to 6"}},
		{"up --seed=-1", []string{"--seed", `"-1"`, "uint"}},
		{"up --type m5.tiny", []string{"--type", `"m5.tiny"`, "m5.large"}},
		{"up --cluster a/b", []string{"--cluster", `"a/b"`, "letters"}},
		{"up --account 12", []string{"--account", `"12"`, "12 digits"}},
		{"up --region mars", []string{"--region", `"mars"`, "us-east-1"}},
		{"up --listen 5252", []string{"--listen", `"5252"`, "127.0.0.1:5252"}},
		{"up --listen :5252", []string{"--listen", `":5252"`, "loopback"}},
		{"up --listen 0.0.0.0:5252", []string{"--listen", `"0.0.0.0:5252"`, "loopback"}},
		{"up --listen [::]:5252", []string{"--listen", `"[::]:5252"`, "loopback"}},
		{"up --listen 192.0.2.1:5252", []string{"--listen", `"192.0.2.1:5252"`, "loopback"}},
		{"up --listen berth.example:5252", []string{"--listen", `"berth.example:5252"`, "loopback"}},
		{"up --listen 127.0.0.1:http!", []string{"--listen", `"127.0.0.1:http!"`, "127.0.0.1:5252"}},
		{"up --listen 127.0.0.1:70000", []string{"--listen", `"127.0.0.1:70000"`, "127.0.0.1:5252"}},
		{"doctor", []string{"--stack", "BERTH_STACK"}},
		{"doctor --stack berth --data .", []string{"--data", "--stack"}},
		{"doctor --data nowhere", []string{"--data", "nowhere"}},
		{"doctor --stack berth --join-within 0s", []string{"--join-within", "0s", "1s to 24h"}},
		{"doctor --stack berth --timeout 2h", []string{"--timeout", "2h", "1s to 1h"}},
		{"replay --nodes nowhere.csv", []string{"--nodes", "nowhere.csv", "no such file"}},
		{"replay --tasks nowhere.csv", []string{"--tasks", "nowhere.csv", "no such file"}},
		{"replay --compress 0", []string{"--compress", "0", "above 0"}},
		{"replay --compress=NaN", []string{"--compress", "NaN", "above 0"}},
		{"service --endpoint foo", []string{"--endpoint", `"foo"`, "http://127.0.0.1:5252"}},
		{"cluster --endpoint foo", []string{"--endpoint", `"foo"`}},
		{"backup out.tar --endpoint foo", []string{"--endpoint", `"foo"`}},
		{"status --endpoint http://localhost --stack x", []string{"--endpoint", "beside --stack x"}},
		{"proxy --endpoint foo", []string{"--endpoint", `"foo"`}},
		{"console --listen 127.0.0.1:abc", []string{"--listen", `"127.0.0.1:abc"`, "127.0.0.1:5254"}},
		{"console --listen 0.0.0.0:80", []string{"--listen", `"0.0.0.0:80"`, "loopback"}},
		{"proxy --listen 127.0.0.1:70000", []string{"--listen", `"127.0.0.1:70000"`, "127.0.0.1:5253"}},
		{"--stack x", []string{"expected one of"}},
		{"--stack", []string{"expected one of"}},
		{"--stack x frob", []string{"frob"}},
		{"replay --every-nth-node 0", []string{"--every-nth-node", "0", "at least 1"}},
	} {
		t.Run(c.args, func(t *testing.T) {
			code, out, errs := berth(strings.Fields(c.args)...)
			if code != 2 || out != "" {
				t.Errorf("exit code %d, printed %q", code, out)
			}
			for _, want := range append(c.want, "berth: ", "--help") {
				if !strings.Contains(errs, want) {
					t.Errorf("%q does not say %q", errs, want)
				}
			}
		})
	}
	if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
		t.Errorf("left behind %v, %v", left, err)
	}
}

func TestUp(t *testing.T) {
	t.Run("ContinuesWhereItWasInterrupted", continuesAfterInterrupt)
	t.Run("EphemeralWritesNothing", writesNothing)
	t.Run("NamesThePortThatIsTaken", refusesTakenPort)
	t.Run("RefusesASecondProcessOnTheSameData", refusesSecondProcess)
	t.Run("SaysWhatIsWrongWithTheData", refusesBadData)
}

// continuesAfterInterrupt stops berth up by Ctrl-C while tasks run, and starts it again.
func continuesAfterInterrupt(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	first := startChild(t, "berth", "up", "--listen", "127.0.0.1:0", "--data", data, "--nodes", "2")
	api, ctx := ecsClient(first.waitForEndpoint()), stepContext(t)
	registerDefinition(t, api, "web")
	if _, err := api.CreateService(ctx, &ecs.CreateServiceInput{
		ServiceName: aws.String("web"), TaskDefinition: aws.String("web"), DesiredCount: aws.Int32(3),
	}); err != nil {
		t.Fatal(err)
	}
	awaitRunning(t, api, "web", 3)
	before := taskARNs(t, api)
	code := first.interrupt()
	stdout, stderr := first.outputSoFar()
	if code != 0 || stderr != "" {
		t.Errorf("exit code %d, %q", code, stderr)
	}
	if last := stdout[len(stdout)-1]; !strings.Contains(last, "http://127.0.0.1:") {
		t.Errorf("the last line does not say where the API is: %q", stdout)
	}

	second := startChild(t, "berth", "up", "--listen", "127.0.0.1:0", "--data", data, "--nodes", "2")
	api = ecsClient(second.waitForEndpoint())
	if stdout, _ := second.outputSoFar(); !strings.Contains(stdout[0], "continues where it stopped") {
		t.Errorf("it says %q", stdout[0])
	}
	awaitRunning(t, api, "web", 3)
	if diff := cmp.Diff(before, taskARNs(t, api)); diff != "" {
		t.Errorf("the same tasks should run on: %s", diff)
	}
	if code := second.interrupt(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func writesNothing(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	c := startChild(t, "berth", "up", "--listen", "127.0.0.1:0", "--ephemeral", "--nodes", "1")
	registerDefinition(t, ecsClient(c.waitForEndpoint()), "web")
	if code := c.interrupt(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("it wrote %v, %v", left, err)
	}
}

func refusesTakenPort(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	data := filepath.Join(t.TempDir(), "data")
	code, out, errs := berth("up", "--listen", taken.Addr().String(), "--data", data)
	if code != 1 || out != "" {
		t.Errorf("exit code %d, printed %q", code, out)
	}
	for _, want := range []string{taken.Addr().String(), "in use", "--listen 127.0.0.1:0"} {
		if !strings.Contains(errs, want) {
			t.Errorf("%q does not say %q", errs, want)
		}
	}
	if _, err := os.Stat(filepath.Join(data, "state.db")); err == nil {
		t.Error("it touched the data before it had its port")
	}
}

func refusesSecondProcess(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	first := startChild(t, "berth", "up", "--listen", "127.0.0.1:0", "--data", data, "--nodes", "1")
	api := ecsClient(first.waitForEndpoint())
	code, out, errs := berth("up", "--listen", "127.0.0.1:0", "--data", data)
	if code != 1 || out != "" {
		t.Errorf("exit code %d, printed %q", code, out)
	}
	for _, want := range []string{"--data " + data, "in use by another process"} {
		if !strings.Contains(errs, want) {
			t.Errorf("%q does not say %q", errs, want)
		}
	}
	registerDefinition(t, api, "still-there")
}

func refusesBadData(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := berth("up", "--listen", "127.0.0.1:0", "--data", file); code != 1 ||
		!strings.Contains(errs, file) {
		t.Errorf("a file for a folder: exit code %d, %q", code, errs)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "state.db"), bytes.Repeat([]byte("no database "), 1000),
		0o600); err != nil {
		t.Fatal(err)
	}
	code, _, errs := berth("up", "--listen", "127.0.0.1:0", "--data", dir)
	if code != 1 || !strings.Contains(errs, "is damaged, or no file of Berth") {
		t.Errorf("something else for the state: exit code %d, %q", code, errs)
	}
	for file, row := range map[string][2]string{
		"state.db": {"rows", "home\x00task#1"}, "fleet.db": {"tasks", "1"},
	} {
		dir := newFolder(t)
		if err := changeDatabase(filepath.Join(dir, file), row[0], row[1], "{"); err != nil {
			t.Fatal(err)
		}
		code, _, errs := berth("up", "--listen", "127.0.0.1:0", "--data", dir)
		if code != 1 || !strings.Contains(errs, file+" is damaged, or no file of Berth") {
			t.Errorf("a row of %s without sense: exit code %d, %q", file, code, errs)
		}
	}
}

// If a file of the data folder is damaged while it is open, the next change is refused, and the program
// ends with what is wrong and what to do.
func TestEndsWhenItsDataIsDamaged(t *testing.T) {
	for file, damage := range map[string]func(path string) error{
		"state.db": func(path string) error { return os.Truncate(path, 8192) },
		"fleet.db": os.Remove,
	} {
		t.Run(file, func(t *testing.T) {
			path := newFolder(t)
			c := startChild(t, "berth", "up", "--listen", "127.0.0.1:0", "--data", path)
			api := ecsClient(c.waitForEndpoint())
			if err := damage(filepath.Join(path, file)); err != nil {
				t.Fatal(err)
			}
			_, _ = api.CreateCluster(stepContext(t), &ecs.CreateClusterInput{ClusterName: aws.String("new")})
			code := c.waitForExit()
			_, errs := c.outputSoFar()
			if code != 1 || !strings.Contains(errs, file) ||
				!strings.Contains(errs, "restore the folder from a backup") {
				t.Errorf("exit code %d, %s", code, errs)
			}
			if strings.Contains(errs, "goroutine") {
				t.Error("it printed a stack trace")
			}
		})
	}
}

// A web page cannot reach the API, neither by a host name of its own nor from its origin.
func TestRefusesWebPages(t *testing.T) {
	c := startChild(t, "berth", "up", "--listen", "127.0.0.1:0", "--ephemeral", "--nodes", "1")
	endpoint := c.waitForEndpoint()
	for name, header := range map[string][2]string{
		"AnotherHost":   {"Host", "berth.example"},
		"AnotherOrigin": {"Origin", "https://berth.example"},
	} {
		t.Run(name, func(t *testing.T) {
			status, body := postRequest(t, endpoint, "ListClusters", "{}", header)
			if status != 403 || !strings.Contains(body, "AccessDeniedException") {
				t.Errorf("status %d, %s", status, body)
			}
		})
	}
	if status, body := postRequest(t, endpoint, "ListClusters", "{}"); status != 200 ||
		!strings.Contains(body, "cluster/default") {
		t.Errorf("status %d, %s", status, body)
	}
}

// registerDefinition registers a task definition that fits anywhere.
func registerDefinition(t *testing.T, api *ecs.Client, family string) {
	t.Helper()
	_, err := api.RegisterTaskDefinition(stepContext(t), &ecs.RegisterTaskDefinitionInput{
		Family: &family, ContainerDefinitions: []types.ContainerDefinition{{
			Name: aws.String("main"), Image: aws.String("busybox"), Cpu: 8, Memory: aws.Int32(16),
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
}
