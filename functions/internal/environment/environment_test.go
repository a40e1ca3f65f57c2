package environment_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"berth/functions/internal/environment"
	"berth/shared/handler"
	"berth/shared/state"
)

func with(pairs ...string) *environment.Environment {
	vars := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		vars[pairs[i]] = pairs[i+1]
	}
	return environment.NewEnvironment(func(name string) string { return vars[name] })
}

func TestSettings(t *testing.T) {
	t.Run("DefaultWhereNothingIsSet", func(t *testing.T) {
		e := with()
		if diff := cmp.Diff(handler.DefaultSettings(), e.HandlerSettings()); diff != "" || e.JoinedErrors() != nil {
			t.Errorf("%v, settings (-want +got):\n%s", e.JoinedErrors(), diff)
		}
	})
	t.Run("FollowTheVariables", func(t *testing.T) {
		e := with("START_RATE", "2.5", "START_BURST", "7", "SETTLE_SECONDS", "0.5", "PROVISIONING_LIMIT", "0",
			"REQUEST_WAIT_SECONDS", "0",
			"THROTTLE_LADDER_SECONDS", "1, 90", "WAVE_PERCENT", "7", "PUBLISH_EVENTS", "true")
		want := handler.DefaultSettings()
		want.BackoffLadder, want.ReplacePercent, want.PublishEvents = []time.Duration{time.Second, 90 * time.Second}, 7,
			true
		want.StartRate, want.StartBurst, want.Settle, want.ProvisioningLimit, want.RequestWait = 2.5, 7,
			500*time.Millisecond, 0, 0
		if diff := cmp.Diff(want, e.HandlerSettings()); diff != "" || e.JoinedErrors() != nil {
			t.Errorf("%v, settings (-want +got):\n%s", e.JoinedErrors(), diff)
		}
	})
	t.Run("NameWhatIsMalformed", func(t *testing.T) {
		for name, value := range map[string]string{
			"START_RATE": "0", "START_BURST": "NaN", "SETTLE_SECONDS": "1m", "REQUEST_WAIT_SECONDS": "-1",
			"THROTTLE_LADDER_SECONDS": "60,soon", "PUBLISH_EVENTS": "yes", "UNHEALTHY_SHARE_PERCENT": "101",
		} {
			e := with(name, value)
			e.HandlerSettings()
			if err := e.JoinedErrors(); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s=%s: %v, want an error that names it", name, value, err)
			}
		}
	})
}

func TestWhatIsMissingIsCollected(t *testing.T) {
	e := with("AWS_REGION", "eu-central-1")
	e.StateTable()
	e.RequiredVariable("WAKE_QUEUE_URL")
	e.Account()
	if err := e.JoinedErrors(); err == nil ||
		err.Error() != "TABLE_NAME is not set\nWAKE_QUEUE_URL is not set\nACCOUNT_ID is not set" {
		t.Errorf("Err = %v", err)
	}
}

// Without REQUIRE_IAM, a function that forgot it would let everyone do everything.
func TestUnverifiedCallersMayCallOnlyIfAVariableSaysSo(t *testing.T) {
	for value, may := range map[string]bool{"": false, "true": false, "no": true, "false": true} {
		e := with("REQUIRE_IAM", value, "WRITER_ARNS", "arn:aws:iam::123456789012:user/ann")
		p, unverified := e.AccessPolicy()
		failed := e.JoinedErrors() != nil // the function does not start
		if may != (unverified != "") || failed != (value == "" || value == "no") {
			t.Errorf("with %q the caller is %q, the errors are %v", value, unverified, e.JoinedErrors())
		}
		if len(p.Writers) != 1 && !may {
			t.Errorf("with %q the writers are %q", value, p.Writers)
		}
	}
}

func TestList(t *testing.T) {
	if got := with("EVENT_SOURCES", " aws.ecs, ,berth.fleet").ListVariable("EVENT_SOURCES"); !cmp.Equal(got,
		[]string{"aws.ecs", "berth.fleet"}) {
		t.Errorf("List = %q", got)
	}
	if got := with().ListVariable("EVENT_SOURCES"); got != nil {
		t.Errorf("List = %q, want nil", got)
	}
}

func TestSleepEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := (environment.Clock{}).Sleep(ctx, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("Sleep = %v", err)
	}
}

// TestLoadFindsEndpoints checks that the usual variables of AWS tools lead to an emulator.
func TestLoadFindsEndpoints(t *testing.T) {
	called := map[string]string{}
	serve := func(name string) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			scope := strings.Split(r.Header.Get("Authorization"), "/") // key, date, Region, service, rest
			called[r.Header.Get("X-Amz-Target")] = strings.Join([]string{name, scope[0], scope[2], scope[3]}, " ")
			_, _ = w.Write([]byte("{}"))
		}))
		t.Cleanup(server.Close)
		return server.URL
	}
	for name, value := range map[string]string{
		"AWS_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": "AKIDTEST", "AWS_SECRET_ACCESS_KEY": "s",
		"AWS_SESSION_TOKEN": "t",
		"AWS_ENDPOINT_URL":  serve("all"), "AWS_ENDPOINT_URL_ECS": serve("ecs"), "TABLE_NAME": "table",
	} {
		t.Setenv(name, value)
	}
	e := environment.LoadProcess()
	ctx := context.Background()
	if _, err := e.StateTable().Get(ctx, state.Key{Cluster: "c", Sort: "meta"}); err != nil {
		t.Error(err)
	}
	if _, err := e.ECSClient().ListInstances(ctx, "c"); err != nil {
		t.Error(err)
	}
	if _, _, err := e.ECSForwarder().Forward(ctx, "ListClusters", nil); err != nil {
		t.Error(err)
	}
	want := map[string]string{
		"DynamoDB_20120810.GetItem":                                 "all AWS4-HMAC-SHA256 Credential=AKIDTEST eu-central-1 dynamodb",
		"AmazonEC2ContainerServiceV20141113.ListContainerInstances": "ecs AWS4-HMAC-SHA256 Credential=AKIDTEST eu-central-1 ecs",
		"AmazonEC2ContainerServiceV20141113.ListClusters":           "ecs AWS4-HMAC-SHA256 Credential=AKIDTEST eu-central-1 ecs",
	}
	if diff := cmp.Diff(want, called); diff != "" || e.JoinedErrors() != nil {
		t.Errorf("%v, calls (-want +got):\n%s", e.JoinedErrors(), diff)
	}
}

func TestLoadWantsCredentials(t *testing.T) {
	for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} {
		t.Setenv(name, "")
	}
	if environment.LoadProcess().JoinedErrors() == nil {
		t.Error("an environment without credentials passes")
	}
}

func TestLogger(t *testing.T) {
	var out bytes.Buffer
	log := environment.NewLogger(&out, "WARN")
	log.Info("unheard")
	log.Warn("heard", "message", "m-1", "time", "t")
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil { // a second line would be an error too
		t.Fatal(err)
	}
	at, _ := line["timestamp"].(string)
	if _, err := time.Parse(time.RFC3339, at); err != nil || line["time"] != "t" || line["level"] != "WARN" ||
		line["msg"] != "heard" || line["message"] != "m-1" {
		t.Errorf("line %v", line)
	}
}
