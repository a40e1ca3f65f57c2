//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"

	"berth/cmd/berth/whatif"
)

// A running Berth and a saved snapshot of it give the same answers, and asking changes nothing.
func TestWhatif(t *testing.T) {
	endpoint := startChild(t, "berth", "up", "--ephemeral", "--nodes", "6", "--listen", "127.0.0.1:0").waitForEndpoint()
	api := ecsClient(endpoint)
	registerDefinition(t, api, "web")
	_, err := api.CreateService(stepContext(t), &ecs.CreateServiceInput{ServiceName: aws.String("web"),
		TaskDefinition: aws.String("web"), DesiredCount: aws.Int32(7)})
	if err != nil {
		t.Fatal(err)
	}
	awaitRunning(t, api, "web", 7)
	dir := t.TempDir()
	rows := func(name string) (path, content string) {
		t.Helper()
		path = filepath.Join(dir, name)
		code, out, errs := berth("whatif", "--endpoint", endpoint, "--save", path)
		if code != 0 || out+errs != "" {
			t.Fatalf("saving: exit code %d, %q, %q", code, out, errs)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		_, content, _ = strings.Cut(string(data), "\n") // the first line has the time
		return path, content
	}
	path, before := rows("before.jsonl")
	task := lastPart(taskARNs(t, api)[0])
	for _, c := range []struct {
		args string
		code int
		want []string
	}{
		{"whatif --service web --count 2", 0, []string{"2 tasks of service web would go to ",
			"The first: 6 instances; of the 6 that can run it, "}},
		{"whatif --task-definition web --distinct --count 7", 3,
			[]string{"6 of 7 tasks of web:1 ", "The other 1: 0/6: 6 already have one"}},
		{"whatif --service web --tolerations dedicated=gpu:NO_SCHEDULE", 0,
			[]string{"A task of service web would go to "}},
		{"whatif --cpu 4096 --memory 128", 3, []string{"A task with 4096 CPU units, 128 MiB would find no instance.",
			"6 insufficient CPU (needs 4096 units, best free "}},
		{"whatif --service web --moves", 0, []string{"A task of service web would go to ", "No task has to move"}},
		{"whatif --moves --json", 0, []string{`"underWay":[],"planned":[],"violations":[],"unrepaired":[]`}},
		{"whatif --service api", 1, []string{`--service: service "api" is not in the cluster, expected one of: web`}},
		{"explain service web", 0,
			[]string{"Service web (REPLICA, ACTIVE, web:1) wants 7 tasks: 7 running, 0 starting, 0 without an instance."}},
		{"explain task " + task, 0, []string{"Task " + task + " of service web is RUNNING on ",
			"If it were placed again, it would go"}},
		{"explain task " + taskARNs(t, api)[0] + " --json", 0,
			[]string{`"task":"` + task, `"service":"web"`, `"here":{"instance":"`}},
		{"explain cluster", 0, []string{"6 instances accept tasks.", "No metric has a load or a capacity."}},
		{"explain cluster --json", 0, []string{`{"instances":6,"metrics":[],"unused":[]}`}},
		{"explain service api", 1, []string{`service "api" is not in the cluster, expected one of: web`}},
	} {
		t.Run(c.args, func(t *testing.T) {
			args := strings.Fields(c.args)
			code, live, errs := berth(append(args, "--endpoint", endpoint)...)
			if code != c.code {
				t.Errorf("exit code %d, want %d: %s", code, c.code, errs)
			}
			for _, want := range c.want {
				if !strings.Contains(live+errs, want) {
					t.Errorf("no %q in:\n%s%s", want, live, errs)
				}
			}
			code, saved, savedErrs := berth(append(args, "--snapshot", path)...)
			if code != c.code || saved != live || savedErrs != errs {
				t.Errorf("of the saved snapshot, exit code %d:\n%s%s", code, saved, savedErrs)
			}
		})
	}
	t.Run("ADefinitionThatNothingUsedYet", func(t *testing.T) {
		registerDefinition(t, api, "new")
		code, out, errs := berth("whatif", "--endpoint", endpoint, "--task-definition", "new")
		if code != 0 || !strings.Contains(out, "A task of new:1 would go to ") {
			t.Errorf("exit code %d, %q, %q", code, out, errs)
		}
		code, _, errs = berth("whatif", "--endpoint", endpoint, "--task-definition", "newer")
		if want := `--task-definition: task definition "newer" is not in the cluster, expected one of: web:1`; code != 1 || !strings.Contains(errs, want) {
			t.Errorf("exit code %d, no %q in %q", code, want, errs)
		}
	})
	if _, after := rows("after.jsonl"); after != before {
		t.Errorf("the questions changed the cluster, from\n%s\nto\n%s", before, after)
	}
}

func lastPart(arn string) string { return arn[strings.LastIndexByte(arn, '/')+1:] }

// The JSON has the names that programs rely on.
func TestWhatifJSON(t *testing.T) {
	code, out, errs := berth("whatif", "--trace", "--gpus", "2", "--count", "2", "--instance", "openb-node-0000",
		"--json")
	var got whatif.Answer
	if err := json.Unmarshal([]byte(out), &got); code != 0 || errs != "" || err != nil {
		t.Fatalf("exit code %d, %q, %v", code, errs, err)
	}
	if len(got.Placed) != 2 || len(got.Placed[0].GPUs) != 2 || got.Unplaced != 0 ||
		got.Explanation.Diagnosis.Evaluated != 1523 ||
		got.Explanation.Best.Instance != got.Placed[0].Instance || got.Instance.Instance != "openb-node-0000" {
		t.Errorf("%+v", got)
	}
	var names map[string]any
	if err := json.Unmarshal([]byte(out), &names); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		"tasks", "count", "placed", "unplaced", "explanation.diagnosis.rejected", "explanation.best.key",
		"explanation.runnerUp.instance",
		"explanation.decidedBy", "explanation.text", "instance.chosen", "instance.feasible", "instance.text",
	} {
		at := any(names)
		for name := range strings.SplitSeq(path, ".") {
			at = at.(map[string]any)[name]
		}
		if at == nil {
			t.Errorf("no %s in %s", path, out)
		}
	}
}

func TestWhatifOfATrace(t *testing.T) {
	nodes := writeTestFile(t, "nodes.csv", packNodeList)
	code, out, errs := berth("whatif", "--nodes", nodes, "--gpu-share", "300", "--cpu", "1024", "--member-of",
		"attribute:gpu-model == A10", "--instance", "c")
	want := "A task with 1024 CPU units, 0.3 of a GPU would go to b, GPU 0.\n" +
		"  3 instances: 2 constraint not met (attribute:gpu-model == A10); only b can run it\n" +
		"  c cannot take it: constraint not met (attribute:gpu-model == A10), insufficient GPU (needs 0.3, best free 0)\n"
	if code != 0 || out != want || errs != "" {
		t.Errorf("exit code %d, %q, got\n%s", code, errs, out)
	}
	code, out, _ = berth("whatif", "--trace", "--gpus", "8", "--count", "1000")
	if code != 3 || !strings.Contains(out, "of 1000 tasks with 8 GPUs would find an instance: ") ||
		!strings.Contains(out, " more instances") {
		t.Errorf("exit code %d, got\n%s", code, out)
	}
}

// Every message about a mistake names the flag, the value and what was expected.
func TestWhatifMistakes(t *testing.T) {
	nodes, bad := writeTestFile(t, "nodes.csv", packNodeList), writeTestFile(t, "bad.jsonl", "hello\n")
	sized := func(args ...string) []string { return append([]string{"whatif", "--trace", "--cpu", "1"}, args...) }
	for name, c := range map[string]struct {
		args []string
		code int
		want []string
	}{
		"Nothing":  {[]string{"whatif"}, 2, []string{"nothing is asked", "--service", "--moves"}},
		"Count":    {sized("--count", "0"), 2, []string{"--count is 0", "1 to 1000"}},
		"CPU":      {[]string{"whatif", "--cpu=-1"}, 2, []string{"--cpu is -1", "0 to 10000000"}},
		"Memory":   {[]string{"whatif", "--memory", "many"}, 2, []string{"--memory", `"many"`}},
		"GPUs":     {sized("--gpus", "5000"), 2, []string{"--gpus is 5000", "0 to 1024"}},
		"GPUShare": {sized("--gpu-share", "1000"), 2, []string{"--gpu-share is 1000", "1 to 999"}},
		"ShareAndWhole": {sized("--gpu-share", "10", "--gpus", "1"), 2,
			[]string{"--gpu-share is 10", "beside --gpus"}},
		"Port":       {sized("--port", "80"), 2, []string{`--port is "80"`, "80/tcp"}},
		"PortNumber": {sized("--port", "70000/tcp"), 2, []string{`--port is "70000/tcp"`, "53/udp"}},
		"Metric":     {sized("--metric", "m"), 2, []string{`--metric is "m"`, "NAME=LOAD"}},
		"Strategy": {sized("--strategy", "spread:disk"), 2,
			[]string{`--strategy is "spread:disk"`, "spread:attribute:NAME"}},
		"Strategies": {sized("--strategy=random", "--strategy=random", "--strategy=random", "--strategy=random",
			"--strategy=random", "--strategy=random"), 2, []string{"--strategy is given 6 times", "at most 5"}},
		"Tolerations":  {sized("--tolerations", "*=1"), 2, []string{`--tolerations is "*=1"`, "KEY=VALUE or *"}},
		"DomainPolicy": {sized("--domain-policy", "wide"), 2, []string{`--domain-policy is "wide"`, "adaptive"}},
		"Scoring":      {sized("--scoring", "best"), 2, []string{`--scoring is "best"`, "best-fit"}},
		"MemberOf": {sized("--member-of", "attribute:disk =="), 2,
			[]string{`--member-of is "attribute:disk =="`, "expected"}},
		"Constraint": {sized("--constraint", "Disk =="), 2, []string{`--constraint is "Disk =="`, "expected"}},
		"Cluster":    {sized("--cluster", "a/b"), 2, []string{`--cluster is "a/b"`, "letters"}},
		"TwoKinds": {[]string{"whatif", "--service", "web", "--task-definition", "web:1"}, 2,
			[]string{`--task-definition is "web:1"`, "beside --service"}},
		"SizeOfAService": {[]string{"whatif", "--service", "web", "--cpu", "1"}, 2,
			[]string{"--cpu", "of no service or definition"}},
		"InstanceOnly": {[]string{"whatif", "--instance", "i"}, 2, []string{`--instance is "i"`, "with --service"}},
		"TwoSources":   {sized("--snapshot", bad), 2, []string{"--snapshot is", "beside --trace"}},
		"SnapshotNodes": {[]string{"whatif", "--cpu", "1", "--snapshot", bad, "--nodes", nodes}, 2,
			[]string{"--snapshot is", "beside --nodes"}},
		"NodesTrace":   {sized("--nodes", nodes), 2, []string{"--nodes is", "beside --trace"}},
		"SaveOfATrace": {sized("--save", "x"), 2, []string{"--save is", "only with an endpoint"}},
		"NoSnapshot": {[]string{"whatif", "--cpu", "1", "--snapshot", "missing"}, 2,
			[]string{"--snapshot", "missing"}},
		"BadSnapshot": {[]string{"whatif", "--cpu", "1", "--snapshot", bad}, 1,
			[]string{"bad.jsonl: line 1", `"hello" is no row`}},
		"NoInstance": {sized("--instance", "i-1"), 1,
			[]string{`--instance: instance "i-1" is not in the cluster`, "expected one of: openb-node-0000"}},
		"NobodyAnswers": {[]string{"whatif", "--cpu", "1", "--endpoint", "http://127.0.0.1:1"}, 1,
			[]string{"no server answers", "start `berth up`"}},
		"Task":   {[]string{"explain", "task", "t", "--trace"}, 2, []string{"unknown flag --trace"}},
		"NoTask": {[]string{"explain", "task"}, 2, []string{"<id>"}},
		"ExplainSave": {[]string{"explain", "service", "web", "--snapshot", bad, "--save", "x"}, 2,
			[]string{"--save is", "only with an endpoint"}},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := berth(c.args...)
			if code != c.code || out != "" {
				t.Errorf("exit code %d, want %d; printed %q", code, c.code, out)
			}
			for _, want := range c.want {
				if !strings.Contains(errs, want) {
					t.Errorf("no %q in %q", want, errs)
				}
			}
		})
	}
}

func TestWhatifHelp(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"whatif --help", "Exit code: 0 if all tasks would find an instance, 3 if some would not"},
		{"whatif --help", "berth whatif --service web --count 3"},
		{"explain --help", "berth explain service web"},
		{"explain task --help", "JSON: task, service"},
		{"explain cluster --help", "JSON: instances, metrics"},
		{"explain service --help", "JSON: service, schedulingStrategy"},
	} {
		if code, out, errs := berth(strings.Fields(c.args)...); code != 0 || errs != "" ||
			!strings.Contains(out, c.want) {
			t.Errorf("%s: exit code %d, %q, no %q in:\n%s", c.args, code, errs, c.want, out)
		}
	}
}

// A command that takes longer than two seconds reports how far it is, at most every two seconds.
func TestTeller(t *testing.T) {
	now := time.Unix(0, 0)
	var out strings.Builder
	say := newProgress(&out, func() time.Time { return now })
	for _, second := range []int{0, 1, 2, 3, 5} {
		now = time.Unix(int64(second), 0)
		say.reportProgress("%s", fmt.Sprint(second, " s"))
	}
	say.clearReport()
	if want := "2 s\n5 s\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
