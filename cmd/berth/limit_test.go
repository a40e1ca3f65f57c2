//go:build unix

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
)

// Limits of an application are set, shown and removed, and the others stay. What `berth status` prints
// against a limit that is reached ends the problem.
func TestLimit(t *testing.T) {
	endpoint := startChild(t, "berth", "up", "--ephemeral", "--nodes", "2", "--zones", "1", "--listen",
		"127.0.0.1:0").waitForEndpoint()
	check := func(line string, wantCode int, want string) {
		t.Helper()
		code, out, errs := berth(append(strings.Fields(line), "--endpoint", endpoint)...)
		if code != wantCode || !strings.Contains(out+errs, want) {
			t.Errorf("berth %s: exit code %d, %s%s, want %d and %q", line, code, out, errs, wantCode, want)
		}
	}
	check("limit", 0, "No application of cluster default has limits.\n")
	check("limit --json", 0, `{"applications":{}}`+"\n")
	check("limit shop", 1, `application "shop" is not in the cluster, which has none`)
	check("limit shop --maximum-nodes 1", 0, `no service of cluster default is of application "shop".`)
	check("limit shop --total-capacity connections=25", 0,
		"Application shop: at most 1 instances; connections: at most 25 in all.\n")
	check("limit shop --maximum-nodes 0", 0, "Application shop: connections: at most 25 in all.\n")
	check("limit shop --json", 0, `{"applications":{"shop":{"metrics":{"connections":{"totalApplicationCapacity":25}}}}}`)
	check("limit shp", 1, `did you mean "shop"?`)
	check("limit shp --maximum-nodes 1", 0, `no service of cluster default is of application "shp"; did you mean "shop"?`)
	check("limit shp --maximum-nodes 0", 0, "Application shp has no limits.\n")
	check("limit shop --node-capacity connections=5 --reservation connections=9", 1, "reserves 9 of metric connections")
	check("limit --maximum-nodes 1", 2, "expected the name of an application")
	check("limit shop --reservation connections", 2, "--reservation is \"connections\", expected METRIC=N")
	check("limit --cluster defualt", 1, `did you mean "default"?`)
	api := ecsClient(endpoint)
	registerDefinition(t, api, "web")
	if _, err := api.CreateService(stepContext(t), &ecs.CreateServiceInput{ServiceName: aws.String("web"),
		TaskDefinition: aws.String("web"), DesiredCount: aws.Int32(4), Tags: []types.Tag{
			{Key: aws.String("berth:application"), Value: aws.String("shop")},
			{Key: aws.String("berth:metrics"), Value: aws.String("connections=10")}}}); err != nil {
		t.Fatal(err)
	}
	await := func(want string) {
		t.Helper()
		var out string
		ctx, pause := stepContext(t), time.NewTicker(100*time.Millisecond)
		defer pause.Stop()
		for {
			if _, out, _ = berth("status", "--endpoint", endpoint); strings.Contains(out, want) {
				return
			}
			select {
			case <-ctx.Done():
				t.Fatalf("no %q in\n%s", want, out)
			case <-pause.C:
			}
		}
	}
	const raise = "berth limit shop --total-capacity connections=40 --cluster default --endpoint "
	await(raise + endpoint)
	check(strings.TrimPrefix(strings.TrimSuffix(raise, " --endpoint "), "berth "), 0, "at most 40 in all")
	await("Nothing is wrong in cluster default (2 instances, 1 service, 4 tasks).")
}

// An answer without a configuration is an error.
func TestLimitsOfSomethingElse(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("{}"))
	}))
	defer server.Close()
	for _, args := range [][]string{{"limit"}, {"limit", "shop", "--maximum-nodes", "1"}} {
		if code, _, errs := berth(append(args, "--endpoint", server.URL)...); code != 1 ||
			!strings.Contains(errs, "the answer has no configuration") {
			t.Errorf("berth %q: exit code %d, %s", args, code, errs)
		}
	}
}

// Two changes at once both hold, whichever of them is written first: the second one begins again.
func TestLimitsThatChangeAtOnce(t *testing.T) {
	endpoint := startChild(t, "berth", "up", "--ephemeral", "--nodes", "1", "--zones", "1", "--listen",
		"127.0.0.1:0").waitForEndpoint()
	target, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	limit := func(endpoint string, args ...string) string {
		t.Helper()
		code, out, errs := berth(slices.Concat([]string{"limit"}, args, []string{"--endpoint", endpoint})...)
		if code != 0 {
			t.Errorf("berth limit %v: exit code %d, %s", args, code, errs)
		}
		return out
	}
	races, pass := 0, httputil.NewSingleHostReverseProxy(target)
	between := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".PutClusterConfiguration") && races < 2 {
			races++
			limit(endpoint, fmt.Sprint("other-", races), "--maximum-nodes", "2")
		}
		pass.ServeHTTP(w, r)
	}))
	defer between.Close()
	limit(between.URL, "shop", "--maximum-nodes", "1")
	if got, want := limit(endpoint), "Application other-1: at most 2 instances.\nApplication other-2: at most 2 "+
		"instances.\nApplication shop: at most 1 instances.\n"; got != want {
		t.Errorf("the limits are\n%swant\n%s", got, want)
	}
}
