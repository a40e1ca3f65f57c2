package cloudwatch

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/transport/http/protocol/awsquery"

	"berth/shared/cluster"
)

// A recorder keeps the forms that are sent and answers nothing.
type recorder struct{ forms []url.Values }

func (r *recorder) Do(request *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	form, err := url.ParseQuery(string(body))
	r.forms = append(r.forms, form)
	return nil, errors.Join(err, errors.New("not answered"))
}

// Each capacity provider has two metrics, with the same dimensions, in one call for up to 250.
func TestBothMetricsArePublished(t *testing.T) {
	sent := &recorder{}
	m := &Metrics{Client: cloudwatch.New(cloudwatch.Options{
		Region: "us-east-1", HTTPClient: sent, Retryer: aws.NopRetryer{}, DisableRequestCompression: true,
		Credentials: credentials.NewStaticCredentialsProvider("a", "b", ""),
	}, func(o *cloudwatch.Options) { o.Protocol = awsquery.New(&smithy.ServiceSchema{Version: "2010-08-01"}) })}
	point := cluster.Datapoint{Namespace: "n", Cluster: "c", Provider: "p", Percent: 150, Desired: 7, At: time.Now()}
	if err := m.PutScalingMetrics(t.Context(), slices.Repeat([]cluster.Datapoint{point}, 250)); err == nil {
		t.Error("no answer is no error")
	}
	if len(sent.forms) != 1 {
		t.Fatalf("%d calls", len(sent.forms))
	}
	form := sent.forms[0]
	for n, want := range []string{"CapacityProviderReservation 150 Percent", "DesiredCapacity 7 Count"} {
		at := fmt.Sprintf("MetricData.member.%d.", n+1)
		got := form.Get(at+"MetricName") + " " + form.Get(at+"Value") + " " + form.Get(at+"Unit")
		if got != want || form.Get(at+"Dimensions.member.1.Value") != "c" ||
			form.Get(at+"Dimensions.member.2.Value") != "p" {
			t.Errorf("value %d is %s, want %s: %v", n, got, want, form[at+"Dimensions.member.2.Value"])
		}
	}
	if form.Has("MetricData.member.501.MetricName") || !form.Has("MetricData.member.500.MetricName") {
		t.Error("250 providers do not have 500 values")
	}
}
