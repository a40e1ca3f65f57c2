package e2e

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/tests/cloud"
	"berth/tests/ministack"
)

// TestUpgrade replaces the functions of an earlier version by this one's while a service grows: no task is lost, none is
// started twice, none is stopped.
func TestUpgrade(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts an emulator of AWS")
	}
	first, next := versions(t)
	c := &calls{}
	l := newLocal(t, func(o *cloud.Options) {
		o.Code, o.Tap = first, &cloud.Tap{After: c.add}
		o.Parameters["RecheckSeconds"] = "1"
	})
	s := &story{t: t, tier: l, api: l.Client(), cluster: "shop"}
	s.makeCluster()
	s.startBoth(l)
	s.steady("agent", 6)
	early := arns(append(s.tasks("web"), s.tasks("agent")...))
	before, err := l.CodeHash(t.Context(), "placement")
	if err != nil {
		t.Fatal(err)
	}
	s.want(15)
	if err := l.Deploy(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	if after, err := l.CodeHash(t.Context(), "placement"); err != nil || after == before {
		t.Errorf("placement was %s and is %s, %v", before, after, err)
	}
	s.stableAtLast(l, 15)
	late := arns(append(s.tasks("web"), s.tasks("agent")...))
	for _, arn := range early {
		if !slices.Contains(late, arn) {
			t.Errorf("task %s was lost", arn)
		}
	}
	if n := starts(c.since(0)); n != 15+6 {
		t.Errorf("%d tasks were started, want 21", n)
	}
	if slices.ContainsFunc(c.since(0), func(call cloud.Call) bool { return call.Operation == "StopTask" }) {
		t.Error("a task was stopped")
	}
	s.want(3)
	s.stableAtLast(l, 3)
	s.await("ECS to have what is wanted", func() bool {
		listed, err := l.ECS().ListTasks(t.Context(), &ecs.ListTasksInput{Cluster: &s.cluster})
		return err == nil && len(listed.TaskArns) == 3+6
	})
}

func arns(tasks []types.Task) (all []string) {
	for _, task := range tasks {
		all = append(all, *task.TaskArn)
	}
	return all
}

// versions are the functions of the version before this one, and this one's: of the last tag, or of the commit before
// where there is none. Where there is no history it is the same code twice, as different files as far as Lambda can tell.
func versions(t *testing.T) (first, next string) {
	t.Helper()
	next = binaries(t).Code
	root, err := ministack.Root()
	if err != nil {
		t.Fatal(err)
	}
	commit := previous(root)
	if commit == "" {
		t.Log("there is no earlier version here: the same code is deployed again")
		return next, renewed(t, root, next)
	}
	first = filepath.Join(t.TempDir(), "functions")
	source := t.TempDir()
	if err := export(root, commit, source); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(source, "functions", "placement")); errors.Is(err, fs.ErrNotExist) {
		t.Logf("%s has no functions: the same code is deployed again", commit)
		return next, renewed(t, root, next)
	}
	if err := cloud.Build(t.Context(), source, first); err != nil {
		t.Fatalf("%s: %v", commit, err)
	}
	t.Logf("from %s to this version", commit)
	return first, renewed(t, root, next)
}

// previous names the version before this one, empty where that is not known.
func previous(root string) string {
	for _, args := range [][]string{
		{"describe", "--tags", "--abbrev=0", "HEAD~1"}, {"rev-parse", "--quiet", "--verify", "HEAD~1"},
	} {
		cmd := exec.Command("git", args...)
		cmd.Dir = root
		if out, err := cmd.Output(); err == nil {
			return string(bytes.TrimSpace(out))
		}
	}
	return ""
}

// export writes the files of a commit into dir; the repository is left as it is.
func export(root, commit, dir string) error {
	archive := filepath.Join(dir, "archive.tar")
	cmd := exec.Command("git", "archive", "--output", archive, commit)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return errors.Join(err, errors.New(string(out)))
	}
	if out, err := exec.Command("tar", "-xf", archive, "-C", dir).CombinedOutput(); err != nil {
		return errors.Join(err, errors.New(string(out)))
	}
	return os.Remove(archive)
}

// renewed copies the functions with something behind their ends, which nobody reads: another version even if their code
// is the same.
func renewed(t *testing.T, root, code string) string {
	t.Helper()
	folders, err := cloud.Functions(root)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, folder := range folders {
		program, err := os.ReadFile(filepath.Join(code, folder))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, folder), append(program, "next version"...), 0o755); err != nil { //nolint:gosec // it runs
			t.Fatal(err)
		}
	}
	return dir
}
