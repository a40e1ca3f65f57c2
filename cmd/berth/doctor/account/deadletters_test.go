package account_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"berth/cmd/berth/client"
	"berth/cmd/berth/doctor/account"
)

// Dead-letter queues with messages are found by the stack's resources, with the age that CloudWatch
// has; the queues that functions read are not asked for.
func TestReadDeadLetters(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", now.Format(http.TimeFormat))
		target := r.Header.Get("X-Amz-Target")
		switch {
		case r.FormValue("Action") == "DescribeStacks":
			fmt.Fprint(w, `<R><DescribeStacksResult><Stacks><member><StackStatus>CREATE_COMPLETE</StackStatus>`+
				`</member></Stacks></DescribeStacksResult></R>`)
		case r.FormValue("Action") == "ListStackResources":
			fmt.Fprint(w, `<R><ListStackResourcesResult><StackResourceSummaries>`)
			for _, id := range []string{"EventsQueue", "EventsDeadLetters", "WakeDeadLetters"} {
				fmt.Fprintf(w, `<member><LogicalResourceId>%s</LogicalResourceId><PhysicalResourceId>https://sqs/1/%s`+
					`</PhysicalResourceId></member>`, id, id)
			}
			fmt.Fprint(w, `</StackResourceSummaries></ListStackResourcesResult></R>`)
		case strings.HasSuffix(target, ".GetQueueAttributes"):
			asked++
			body := make([]byte, 1000)
			n, _ := r.Body.Read(body) // a short body
			messages := 0
			if strings.Contains(string(body[:n]), "WakeDeadLetters") {
				messages = 2
			}
			fmt.Fprintf(w, `{"Attributes":{"ApproximateNumberOfMessages":"%d"}}`, messages)
		case strings.HasSuffix(target, ".GetMetricStatistics"):
			fmt.Fprintf(w, `{"Datapoints":[{"Timestamp":%d,"Maximum":600}]}`, now.Unix())
		default:
			http.Error(w, target, http.StatusBadRequest)
		}
	}))
	defer server.Close()
	for name, v := range map[string]string{"AWS_ENDPOINT_URL": server.URL, "AWS_ACCESS_KEY_ID": "AKIAANN",
		"AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "eu-west-1", "AWS_CONFIG_FILE": os.DevNull,
		"AWS_SHARED_CREDENTIALS_FILE": os.DevNull, "AWS_PROFILE": "", "AWS_EC2_METADATA_DISABLED": "true"} {
		t.Setenv(name, v)
	}
	aws, err := client.LoadAWS(t.Context(), client.Endpoint{}, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	got, err := account.ReadDeadLetters(t.Context(), account.Options{Stack: "berth", AWS: aws, CallTimeout: time.Minute})
	if err != nil || len(got) != 1 || asked != 2 {
		t.Fatalf("%+v, %v, %d queues asked, want one with messages of 2 asked", got, err, asked)
	}
	q := got[0]
	if q.Queue != "WakeDeadLetters" || q.Messages != 2 || q.URL != "https://sqs/1/WakeDeadLetters" ||
		now.Sub(q.Since).Round(2*time.Second) != 10*time.Minute {
		t.Errorf("%+v, want 2 messages of WakeDeadLetters since %s", q, now.Add(-10*time.Minute))
	}
}
