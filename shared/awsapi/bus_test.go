package awsapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/google/go-cmp/cmp"

	"berth/shared/awsapi"
	"berth/shared/awsapi/eventbus"
)

func openBus(t *testing.T, answer func(operation string, in map[string]any) (int, string)) (*endpoint, *eventbus.Bus) {
	t.Helper()
	e := &endpoint{answer: answer}
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	return e, &eventbus.Bus{Client: eventbridge.New(eventbridge.Options{
		Region: "eu-central-1", BaseEndpoint: &server.URL, Credentials: testCredentials, Retryer: aws.NopRetryer{},
		HTTPClient: awsapi.HTTP{},
	})}
}

func event(n int) []byte {
	return fmt.Appendf(nil,
		`{"version":"0","id":"i","detail-type":"T","source":"s","time":"2026-11-21T10:00:00Z","resources":["r"],"detail":{"n":%d}}`, n)
}

func events(n int) (all [][]byte) {
	for k := range n {
		all = append(all, event(k))
	}
	return all
}

// taken accepts all entries except those whose detail has an error code in codes.
func taken(codes map[string]string) func(string, map[string]any) (int, string) {
	return func(_ string, in map[string]any) (int, string) {
		var out []string
		for _, e := range in["Entries"].([]any) {
			code := codes[e.(map[string]any)["Detail"].(string)]
			out = append(out, fmt.Sprintf(`{"EventId":"x","ErrorCode":%q}`, code))
		}
		return 200, `{"Entries":[` + strings.Join(out, ",") + `]}`
	}
}

func TestBusReturnsWhatToSendAgain(t *testing.T) {
	ctx := context.Background()
	t.Run("SendsTenACallInOrder", func(t *testing.T) {
		e, bus := openBus(t, taken(nil))
		left, err := bus.PutEvents(ctx, events(23))
		if err != nil || len(left) > 0 {
			t.Fatalf("Put = %d left, %v", len(left), err)
		}
		var details []string
		var sizes []int
		for _, c := range e.seen() {
			entries := c.in["Entries"].([]any)
			sizes = append(sizes, len(entries))
			for _, entry := range entries {
				details = append(details, entry.(map[string]any)["Detail"].(string))
			}
		}
		for n, detail := range details {
			if detail != fmt.Sprintf(`{"n":%d}`, n) {
				t.Errorf("event %d is %s", n, detail)
			}
		}
		if diff := cmp.Diff([]int{10, 10, 3}, sizes); diff != "" {
			t.Error(diff)
		}
		first, _ := json.Marshal(e.seen()[0].in["Entries"].([]any)[0])
		if want := `{"Detail":"{\"n\":0}","DetailType":"T","Resources":["r"],"Source":"s","Time":1795255200}`; string(first) != want {
			t.Errorf("entry %s, want %s", first, want)
		}
	})
	t.Run("ReturnsThrottledEventsAndAllAfter", func(t *testing.T) {
		_, bus := openBus(t, taken(map[string]string{`{"n":3}`: "ThrottlingException",
			`{"n":5}`: "NotAuthorizedForSource"}))
		left, err := bus.PutEvents(ctx, events(12))
		if diff := cmp.Diff([][]byte{event(3), event(10), event(11)}, left); diff != "" {
			t.Error(diff)
		}
		if err == nil || !strings.Contains(err.Error(), "ThrottlingException") ||
			!strings.Contains(err.Error(), "NotAuthorizedForSource") {
			t.Errorf("error %v, want both", err)
		}
	})
	t.Run("ReturnsAllIfTheCallFails", func(t *testing.T) {
		_, bus := openBus(t, fails(500, "InternalFailure"))
		if left, err := bus.PutEvents(ctx, events(2)); err == nil || len(left) != 2 {
			t.Errorf("Put = %d left, %v", len(left), err)
		}
	})
	t.Run("RefusesInvalidEvents", func(t *testing.T) {
		e, bus := openBus(t, taken(nil))
		if left, err := bus.PutEvents(ctx, [][]byte{[]byte("{"), event(1)}); err == nil || len(left) != 0 ||
			len(e.seen()) != 1 {
			t.Errorf("Put = %d left, %v", len(left), err)
		}
	})
}
