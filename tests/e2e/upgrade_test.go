package e2e

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/tests/cloud"
	"berth/tests/ministack"
)

// TestUpgrade replaces the functions and the template of an earlier version while a service grows.
// No task is lost, started twice or stopped.
func TestUpgrade(t *testing.T) {
	if testing.Short() {
		t.Skip(leftToCheck + "it builds an earlier version")
	}
	this := builtOptions(t).Version
	t.Run("FromAnEarlierVersion", func(t *testing.T) { replaceVersion(t, earlierVersion(t), this) })
	t.Run("FromTheSameCode", func(t *testing.T) { replaceVersion(t, this, renewedVersion(t, this)) })
}

func replaceVersion(t *testing.T, first, next cloud.Version) {
	c := &callLog{}
	l := newLocal(t, func(o *cloud.Options) {
		o.Version, o.Tap = first, &cloud.Tap{After: c.addCall}
		o.Parameters["RecheckSeconds"] = "1"
	})
	s := &scenario{t: t, tier: l, api: l.Client(), cluster: "shop"}
	s.createCluster()
	s.startServices(l)
	s.awaitSteady("agent", 6)
	early := taskARNs(append(s.runningTasks("web"), s.runningTasks("agent")...))
	before, err := l.CodeHash(t.Context(), "placement")
	if err != nil {
		t.Fatal(err)
	}
	s.setDesired(15)
	if err := l.Deploy(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	after, err := l.CodeHash(t.Context(), "placement")
	if replaced, differs := after != before, codeDiffers(t, first, next, "placement"); err != nil || replaced != differs {
		t.Errorf("placement was %s and is %s, %v; another program: %v", before, after, err, differs)
	}
	s.awaitStable(l, 15)
	late := taskARNs(append(s.runningTasks("web"), s.runningTasks("agent")...))
	for _, arn := range early {
		if !slices.Contains(late, arn) {
			t.Errorf("task %s was lost", arn)
		}
	}
	if n := countStarts(c.callsSince(0)); n != 15+6 {
		t.Errorf("%d tasks were started, want 21", n)
	}
	if slices.ContainsFunc(c.callsSince(0), func(call cloud.Call) bool { return call.Operation == "StopTask" }) {
		t.Error("a task was stopped")
	}
	s.setDesired(3)
	s.awaitStable(l, 3)
	s.await("ECS to have what is wanted", func() bool {
		listed, err := l.SimulatedECS().ListTasks(t.Context(), &ecs.ListTasksInput{Cluster: &s.cluster})
		return err == nil && len(listed.TaskArns) == 3+6
	})
}

// codeDiffers reports whether two versions have different programs of a function. A change may leave
// a function as it is.
func codeDiffers(t *testing.T, first, next cloud.Version, function string) bool {
	t.Helper()
	was, err := os.ReadFile(filepath.Join(first.Code, function))
	if err != nil {
		t.Fatal(err)
	}
	is, err := os.ReadFile(filepath.Join(next.Code, function))
	if err != nil {
		t.Fatal(err)
	}
	return !bytes.Equal(was, is)
}

func taskARNs(tasks []types.Task) (all []string) {
	for _, task := range tasks {
		all = append(all, *task.TaskArn)
	}
	return all
}

// earlierVersion returns an older version of this project, built from its history: the one that
// UPGRADE_FROM names, or the last tag, or the first of ten and more commits ago that can be built.
// Without history, as in an archive, the test is skipped.
func earlierVersion(t *testing.T) cloud.Version {
	t.Helper()
	root, err := ministack.ProjectRoot()
	if err != nil {
		t.Fatal(err)
	}
	commits := previousVersions(root)
	if len(commits) == 0 {
		t.Skip("git has no earlier version here")
	}
	var failed error
	for _, commit := range commits {
		v := cloud.Version{Code: filepath.Join(t.TempDir(), "functions"), Source: t.TempDir()}
		if err := exportCommit(root, commit, v.Source); err != nil {
			t.Fatal(err)
		}
		if failed = cloud.BuildFunctions(t.Context(), v.Source, v.Code, cloud.AsDeployed); failed == nil {
			t.Logf("from %s", commit)
			return v
		}
	}
	t.Fatal(failed)
	return cloud.Version{}
}

// previousVersions names earlier versions in order of preference.
func previousVersions(root string) []string {
	git := func(args ...string) []string {
		cmd := exec.Command("git", args...)
		cmd.Dir = root
		out, err := cmd.Output()
		if err != nil {
			return nil
		}
		return strings.Fields(string(out))
	}
	if commit := os.Getenv("UPGRADE_FROM"); commit != "" {
		return []string{commit}
	}
	if tag := git("describe", "--tags", "--abbrev=0", "HEAD~1"); len(tag) > 0 {
		return tag
	}
	return git("rev-list", "--first-parent", "--skip=10", "--max-count=5", "HEAD")
}

// exportCommit writes the files of a commit into dir and leaves the repository as it is.
func exportCommit(root, commit, dir string) error {
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

// renewedVersion copies the functions and appends bytes that nobody reads, so that Lambda takes
// them for another version.
func renewedVersion(t *testing.T, v cloud.Version) cloud.Version {
	t.Helper()
	files, err := os.ReadDir(v.Code)
	if err != nil || len(files) == 0 {
		t.Fatalf("functions %v, %v", files, err)
	}
	dir := t.TempDir()
	for _, file := range files {
		program, err := os.ReadFile(filepath.Join(v.Code, file.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, file.Name()), append(program, "next version"...), 0o755); err != nil { //nolint:gosec // it runs
			t.Fatal(err)
		}
	}
	v.Code = dir
	return v
}
