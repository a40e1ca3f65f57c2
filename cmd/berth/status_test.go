//go:build unix

package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/cmd/berth/listing"
	"berth/cmd/berth/problem"
)

// A running Berth with one service that works and one whose constraint has a typo.
func TestStatusAndLists(t *testing.T) {
	endpoint := startChild(t, "berth", "up", "--ephemeral", "--nodes", "2", "--listen", "127.0.0.1:0").waitForEndpoint()
	api := ecsClient(endpoint)
	code, out, errs := berth("status", "--endpoint", endpoint)
	if code != 0 || out != "Nothing is wrong in cluster default (2 instances, 0 services, 0 tasks).\n" || errs != "" {
		t.Fatalf("exit code %d: %s%s", code, out, errs)
	}
	registerDefinition(t, api, "web")
	for name, expression := range map[string]string{"web": "", "typo": "attribute:ecs.instance-typ == m5.large"} {
		in := &ecs.CreateServiceInput{ServiceName: &name, TaskDefinition: aws.String("web"), DesiredCount: aws.Int32(2)}
		if expression != "" {
			in.PlacementConstraints = []types.PlacementConstraint{{Type: types.PlacementConstraintTypeMemberOf,
				Expression: &expression}}
		}
		if _, err := api.CreateService(stepContext(t), in); err != nil {
			t.Fatal(err)
		}
	}
	awaitCompleted(t, api, "web")
	saved := filepath.Join(t.TempDir(), "saved.jsonl")
	ctx, pause := stepContext(t), time.NewTicker(20*time.Millisecond)
	defer pause.Stop()
	for code = 0; code != 3 && ctx.Err() == nil; <-pause.C {
		code, out, errs = berth("status", "--endpoint", endpoint, "--save", saved)
	}
	if code != 3 || errs != "" {
		t.Errorf("exit code %d: %s", code, errs)
	}
	for _, want := range []string{
		"1 problem in cluster default (2 instances, 2 services, ",
		"Service typo runs 0 of 2 tasks: no instance can take 2 more.",
		`No instance has the attribute "ecs.instance-typ"; the nearest attribute is "ecs.instance-type".`,
		"aws ecs update-service --cluster default --service typo --placement-constraints " +
			"'type=memberOf,expression=attribute:ecs.instance-type == m5.large'",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	var report problem.Report
	code, out, _ = berth("status", "--snapshot", saved, "--json")
	if err := json.Unmarshal([]byte(out), &report); code != 3 || err != nil || len(report.Problems) != 1 {
		t.Errorf("exit code %d, %v: %s", code, err, out)
	}
	checkNamedTypos(t, api)
	checkLists(t, endpoint)
	checkConsole(t, endpoint)
	// A name that no instance has is named, and the question is answered.
	code, _, errs = berth("whatif", "--endpoint", endpoint, "--service", "web", "--member-of",
		"attribute:ecs.os-typ == linux")
	if want := "berth: warning: no instance has the attribute \"ecs.os-typ\"; the nearest attribute is \"ecs.os-type\"\n"; code != 3 ||
		errs != want {
		t.Errorf("exit code %d: %s, want %s", code, errs, want)
	}
}

// checkNamedTypos makes the API name what no instance has: in the event of a service and in the
// failure of RunTask, which no instance can take, and in the event of a service whose strategy has
// no effect.
func checkNamedTypos(t *testing.T, api *ecs.Client) {
	t.Helper()
	const nearest = `no instance has the attribute "ecs.instance-typ"; the nearest attribute is "ecs.instance-type"`
	run, err := api.RunTask(stepContext(t), &ecs.RunTaskInput{TaskDefinition: aws.String("web"),
		PlacementConstraints: []types.PlacementConstraint{{Type: types.PlacementConstraintTypeMemberOf,
			Expression: aws.String("attribute:ecs.instance-typ == m5.large")}}})
	if err != nil || len(run.Failures) != 1 || !strings.HasSuffix(aws.ToString(run.Failures[0].Detail), nearest) {
		t.Errorf("%+v, %v", run, err)
	}
	if _, err := api.UpdateService(stepContext(t), &ecs.UpdateServiceInput{Service: aws.String("web"),
		AvailabilityZoneRebalancing: types.AvailabilityZoneRebalancingDisabled,
		PlacementStrategy: []types.PlacementStrategy{{Type: types.PlacementStrategyTypeSpread,
			Field: aws.String("attribute:ecs.instance-typ")}}}); err != nil {
		t.Fatal(err)
	}
	awaitEvent(t, api, "typo", nearest)
	awaitEvent(t, api, "web", "(service web) has a placement rule without effect: "+nearest+".")
}

// awaitEvent waits until an event of the service contains the text.
func awaitEvent(t *testing.T, api *ecs.Client, name, text string) {
	t.Helper()
	ctx, pause := stepContext(t), time.NewTicker(20*time.Millisecond)
	defer pause.Stop()
	for ; ctx.Err() == nil; <-pause.C {
		out, err := api.DescribeServices(ctx, &ecs.DescribeServicesInput{Services: []string{name}})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range out.Services[0].Events {
			if strings.Contains(aws.ToString(e.Message), text) {
				return
			}
		}
	}
	t.Errorf("no event of %s has %q", name, text)
}

// checkLists prints each list in each format.
func checkLists(t *testing.T, endpoint string) {
	t.Helper()
	for _, c := range []struct {
		args string
		want []string
	}{
		{"service", []string{"NAME  STATE", "typo  blocked  0/2", "web   steady   2/2"}},
		{"service web --output name", []string{"web\n"}},
		{"task --service web", []string{"ID ", "SERVICE  STATUS", "web      RUNNING"}},
		{"instance --output wide", []string{"ATTRIBUTES", "ecs.instance-type=m5.large"}},
		{"cluster --output yaml", []string{"- clusterName: default\n", "registeredContainerInstancesCount: 2\n"}},
		{"events --service web", []string{"(service web) has reached a steady state."}},
		{"events --containing steady --json", []string{`"service":"web","message":"(service web) has reached`}},
	} {
		code, out, errs := berth(append(strings.Fields(c.args), "--endpoint", endpoint)...)
		if code != 0 || errs != "" {
			t.Errorf("%s: exit code %d, %s", c.args, code, errs)
		}
		for _, want := range c.want {
			if !strings.Contains(out, want) {
				t.Errorf("%s: %q is missing in\n%s", c.args, want, out)
			}
		}
		if strings.Contains(out, "\x1b") {
			t.Errorf("%s: colours without a terminal: %q", c.args, out)
		}
	}
	var tasks []listing.Task
	_, out, _ := berth("task", "--output", "json", "--service", "web", "--endpoint", endpoint)
	if err := json.Unmarshal([]byte(out), &tasks); err != nil || len(tasks) != 2 {
		t.Fatalf("%v: %s", err, out)
	}
	short := listing.ShortID(tasks[0].ID)
	if code, out, errs := berth("explain", "task", short, "--endpoint", endpoint); code != 0 ||
		!strings.Contains(out, tasks[0].ID) {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
	for _, args := range []string{"service wep", "task 123456789abc", "instance i-none", "events --service wep"} {
		if code, _, errs := berth(append(strings.Fields(args), "--endpoint", endpoint)...); code != 1 ||
			!strings.Contains(errs, "is not in the cluster, expected one of: ") {
			t.Errorf("%s: exit code %d, %s", args, code, errs)
		}
	}
}

// checkConsole opens the console of berth up, and one that asks it, which wants its token.
func checkConsole(t *testing.T, endpoint string) {
	t.Helper()
	const sentence = "Service typo runs 0 of 2 tasks: no instance can take 2 more."
	if status, page := openPage(t, http.DefaultClient, endpoint+"/"); status != http.StatusOK ||
		!strings.Contains(page, sentence) {
		t.Errorf("%d: %s", status, page)
	}
	child := startChild(t, "berth", "console", "--endpoint", endpoint, "--every", "100ms")
	address, _, _ := strings.Cut(child.waitForEndpoint(), " ")
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	one := &http.Client{Jar: jar}
	base, _, _ := strings.Cut(address, "?")
	if status, page := openPage(t, one, base); status != http.StatusForbidden || strings.Contains(page, sentence) {
		t.Errorf("without the token: %d", status)
	}
	if status, page := openPage(t, one, address); status != http.StatusOK || !strings.Contains(page, sentence) {
		t.Errorf("%d: %s", status, page)
	}
	if status, page := openPage(t, one, base+"console/events?q=steady"); status != http.StatusOK ||
		!strings.Contains(page, "(service web) has reached a steady state.") {
		t.Errorf("%d: %s", status, page)
	}
	if status, _ := openPage(t, http.DefaultClient, address); status != http.StatusForbidden {
		t.Errorf("the token a second time: %d", status)
	}
}

func openPage(t *testing.T, by *http.Client, address string) (status int, page string) {
	t.Helper()
	r, err := http.NewRequestWithContext(stepContext(t), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := by.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}
