package cluster_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"berth/shared/cluster"
)

func TestARNs(t *testing.T) {
	a := cluster.Account{ID: "123456789012", Region: "eu-central-1"}
	for _, c := range []struct {
		name string
		arn  string
		want string
		is   cluster.ResourceARN
	}{
		{"Cluster", a.ARN("cluster", "prod"), "arn:aws:ecs:eu-central-1:123456789012:cluster/prod",
			cluster.ResourceARN{Kind: "cluster", Cluster: "prod", Name: "prod", Account: a.ID, Region: a.Region}},
		{"Task", a.ARN("task", "prod", "abc"), "arn:aws:ecs:eu-central-1:123456789012:task/prod/abc",
			cluster.ResourceARN{Kind: "task", Cluster: "prod", Name: "abc", Account: a.ID, Region: a.Region}},
		{"OldShortForm", a.ARN("service", "web"), "arn:aws:ecs:eu-central-1:123456789012:service/web",
			cluster.ResourceARN{Kind: "service", Name: "web", Account: a.ID, Region: a.Region}},
		{"TaskDefinition", a.ARN("task-definition", "web:3"),
			"arn:aws:ecs:eu-central-1:123456789012:task-definition/web:3",
			cluster.ResourceARN{Kind: "task-definition", Name: "web:3", Account: a.ID, Region: a.Region}},
		{"OtherPartition", cluster.Account{ID: "1", Region: "cn-north-1", Partition: "aws-cn"}.ARN("container-instance",
			"c", "i"),
			"arn:aws-cn:ecs:cn-north-1:1:container-instance/c/i",
			cluster.ResourceARN{Kind: "container-instance", Cluster: "c", Name: "i", Account: "1",
				Region: "cn-north-1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			expect(t, "ARN", c.arn, c.want)
			got, ok := cluster.ParseARN(c.arn)
			expect(t, "parsed", got, c.is)
			expect(t, "ok", ok, true)
			expect(t, "last part", cluster.LastPart(c.arn), c.is.Name)
		})
	}
	for _, s := range []string{
		"", "web", "task/prod/abc", "arn:aws:ecs:r:1:task", "arn:aws:ecs:r:1:task/", "arn:aws:s3:r:1:task/a/b",
		"arn:aws:ecs:r:1",
		"arn:aws:ecs:r:1:task//b", "arn:aws:ecs:r:1:task/a/", "arn:aws:ecs:r:1:cluster/a/b", "arn:aws:ecs:r:1:/a",
		"arn:aws:ecs:r:1:task/a/b/c", "x:aws:ecs:r:1:task/a/b",
	} {
		if got, ok := cluster.ParseARN(s); ok {
			t.Errorf("%q is no ARN of ECS, parsed as %+v", s, got)
		}
	}
	expect(t, "last part of an id", cluster.LastPart("abc"), "abc")
}

// What parses has a kind and a name and can be made again from its parts. Nothing panics.
func FuzzParseARN(f *testing.F) {
	for _, s := range []string{
		"arn:aws:ecs:us-east-1:123456789012:task/prod/0123456789abcdef0123456789abcdef", "arn:aws:ecs:r:1:service/web",
		"arn:aws-us-gov:ecs:r:1:container-instance/c/i", "arn:aws:ecs:r:1:task-definition/web:3",
		"arn:aws:ecs:::cluster/x", ":::::/", "arn:aws:ecs:r:1:task/a/b/c",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, ok := cluster.ParseARN(s)
		if !ok {
			return
		}
		if got.Kind == "" || got.Name == "" {
			t.Fatalf("%q parsed as %+v", s, got)
		}
		parts := strings.SplitN(s, ":", 6)
		names := []string{got.Name}
		if got.Cluster != "" && got.Kind != "cluster" {
			names = []string{got.Cluster, got.Name}
		}
		account := cluster.Account{Partition: parts[1], Region: parts[3], ID: parts[4]}
		if again := account.ARN(got.Kind, names...); again != s && parts[1] != "" {
			t.Fatalf("%q parsed as %+v, which is %q", s, got, again)
		}
	})
}

var hex32 = regexp.MustCompile(`^[0-9a-f]{32}$`)

func TestIDs(t *testing.T) {
	at := time.Date(2026, 11, 21, 12, 0, 0, 1, time.UTC)
	short := cluster.ShortKey("prod", "web", at)
	t.Run("ShortKeyDiffersPerCreation", func(t *testing.T) {
		seen := map[string]bool{short: true}
		for _, other := range []string{
			cluster.ShortKey("prod", "web", at.Add(1)), cluster.ShortKey("prod", "we", at),
			cluster.ShortKey("prodw", "eb", at), cluster.ShortKey("prod", "", at),
		} {
			if seen[other] || !regexp.MustCompile(`^[0-9a-f]{12}$`).MatchString(other) {
				t.Errorf("short key %q", other)
			}
			seen[other] = true
		}
	})
	t.Run("TaskIDLeadsToItsOwner", func(t *testing.T) {
		id := cluster.TaskID(cluster.StartedBy(short, 7, 0), "i-1")
		expect(t, "is 32 hex digits", hex32.MatchString(id), true)
		expect(t, "owner", cluster.TaskOwner(id), short)
		expect(t, "same again", cluster.TaskID(cluster.StartedBy(short, 7, 0), "i-1"), id)
		for _, other := range []string{
			cluster.TaskID(cluster.StartedBy(short, 8, 0), "i-1"),
			cluster.TaskID(cluster.StartedBy(short, 7, 1), "i-1"),
			cluster.TaskID(cluster.StartedBy(short, 7, 0), "i-2"),
		} {
			if other == id {
				t.Errorf("%s twice", id)
			}
		}
		expect(t, "a foreign one's", hex32.MatchString(cluster.TaskID("ecs-svc/1", "i-1")), true)
	})
	t.Run("RequestedTaskID", func(t *testing.T) {
		a, b := cluster.RequestedTaskID(short, "r", 0), cluster.RequestedTaskID(short, "r", 1)
		expect(t, "differ", a != b && a != cluster.RequestedTaskID(short, "s", 0), true)
		expect(t, "is 32 hex digits", hex32.MatchString(a), true)
		expect(t, "owner", cluster.TaskOwner(a), short)
	})
	t.Run("NoOwnerOfAnInvalidID", func(t *testing.T) { expect(t, "owner", cluster.TaskOwner("abc"), "") })
	t.Run("DeploymentID", func(t *testing.T) {
		id := cluster.DeploymentID(short, at)
		expect(t, "form", regexp.MustCompile(`^ecs-svc/[1-9][0-9]{18}$`).MatchString(id), true)
		expect(t, "same in another time zone", cluster.DeploymentID(short, at.In(time.FixedZone("", 3600))), id)
		expect(t, "differs", cluster.DeploymentID(short, at.Add(1)) != id, true)
	})
	t.Run("DigestDependsOnEachPart", func(t *testing.T) {
		expect(t, "differs", cluster.Digest("a", "b") != cluster.Digest("ab", "") &&
			cluster.Digest("ab") != cluster.Digest("a", "b"), true)
	})
}

// startedBy has at most the 36 characters that ECS allows, and can be parsed.
func TestStartedBy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		short := cluster.ShortKey("c", rapid.String().Draw(t, "name"), time.Unix(0, 0))
		version := rapid.Int64Min(0).Draw(t, "version")
		s := cluster.StartedBy(short, version, rapid.IntRange(0, 99).Draw(t, "round"))
		if len(s) > 36 || !regexp.MustCompile(`^[a-zA-Z0-9_/-]+$`).MatchString(s) {
			t.Fatalf("startedBy %q", s)
		}
		if got, ok := cluster.ParseStartedBy(s); !ok || got != short {
			t.Fatalf("%q leads to %q, %v", s, got, ok)
		}
		if got := cluster.BatchVersion(s); got != version {
			t.Fatalf("%q is of version %d, want %d", s, got, version)
		}
	})
	for _, s := range []string{"", "berth", "berth/", "berth/0123456789ab", "berth/0123456789ab/", "berth/0123/1-0",
		"ecs-svc/0123456789ab/1-0"} {
		if short, ok := cluster.ParseStartedBy(s); ok {
			t.Errorf("%q is not ours, leads to %q", s, short)
		}
		if got := cluster.BatchVersion(s); got != 0 {
			t.Errorf("%q is not ours, is of version %d", s, got)
		}
	}
}
