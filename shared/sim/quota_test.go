package sim_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/sim"
)

// callJSON sends a call of a service with JSON, and returns its answer.
func (w *groupWorld) callJSON(target, body string) (answer map[string]any) {
	w.t.Helper()
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/", strings.NewReader(body))
	r.Header.Set("X-Amz-Target", target)
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 any")
	got := httptest.NewRecorder()
	w.ServeProtocols(http.NotFoundHandler()).ServeHTTP(got, r)
	if err := json.Unmarshal(got.Body.Bytes(), &answer); err != nil {
		w.t.Fatalf("%s: %s", target, got.Body)
	}
	return answer
}

const quotasTarget, standardQuota = "ServiceQuotasV20190624.", `{"ServiceCode": "ec2", "QuotaCode": "L-1216C47A"`

// quota returns the account's quota of On-Demand vCPUs, and what its usage metric says is used.
func (w *groupWorld) quota() (value, used float64) {
	w.t.Helper()
	q := w.callJSON(quotasTarget+"GetServiceQuota", standardQuota+"}")["Quota"].(map[string]any)
	metric := q["UsageMetric"].(map[string]any)
	now := w.clock.Now()
	in := map[string]any{"Namespace": metric["MetricNamespace"], "MetricName": metric["MetricName"], "Period": 60,
		"Statistics": []any{metric["MetricStatisticRecommendation"]}, "StartTime": now.Add(-5 * time.Minute).Unix(),
		"EndTime": now.Unix()}
	var dimensions []any
	for name, v := range metric["MetricDimensions"].(map[string]any) {
		dimensions = append(dimensions, map[string]any{"Name": name, "Value": v})
	}
	in["Dimensions"] = dimensions
	body, err := json.Marshal(in)
	w.do(err)
	points := w.callJSON("GraniteServiceVersion20100801.GetMetricStatistics", string(body))["Datapoints"].([]any)
	if len(points) != 1 {
		w.t.Fatalf("datapoints of the usage are %v, want one", points)
	}
	return q["Value"].(float64), points[0].(map[string]any)["Maximum"].(float64)
}

// A quota of vCPUs refuses launches beyond it until it is increased. Its usage metric counts the
// vCPUs of the machines that run or are launched.
func TestQuotaOfVCPUs(t *testing.T) {
	w := newGroupWorld(t, 2, nil)
	w.clock.advance(launch)
	if value, used := w.quota(); value < 1e6 || used != 4 {
		t.Errorf("%g of %g vCPUs are used, want 4 of a million: two m5.large", used, value)
	}
	w.do(w.Quotas.SetQuota("ec2", "L-1216C47A", 5))
	w.do(w.Groups.SetDesired(t.Context(), "g", 4))
	w.clock.advance(launch + retry)
	w.want("registered under a quota of 5 vCPUs", w.registered(), 2)
	answer := w.scaling("DescribeScalingActivities", "AutoScalingGroupName", "g", "MaxRecords", "1")
	if !strings.Contains(answer, "VcpuLimitExceeded") {
		t.Errorf("the failed launch does not say why: %s", answer)
	}
	for desired, want := range map[string]string{"5": "IllegalArgumentException", "4": "IllegalArgumentException"} {
		answer := w.callJSON(quotasTarget+"RequestServiceQuotaIncrease", standardQuota+`, "DesiredValue": `+desired+"}")
		if answer["__type"] != want {
			t.Errorf("an increase from 5 to %s: %v, want %s", desired, answer, want)
		}
	}
	w.callJSON(quotasTarget+"RequestServiceQuotaIncrease", standardQuota+`, "DesiredValue": 8}`)
	w.clock.advance(launch + retry)
	w.want("registered under a quota of 8 vCPUs", w.registered(), 4)
	if value, used := w.quota(); value != 8 || used != 8 {
		t.Errorf("%g of %g vCPUs are used, want 8 of 8", used, value)
	}
}

func TestQuotasThatDoNotExist(t *testing.T) {
	w := newGroupWorld(t, 0, nil)
	for call, want := range map[string]string{
		`GetServiceQuota {"ServiceCode": "ec2", "QuotaCode": "L-0"}`:                  "NoSuchResourceException",
		`GetServiceQuota {"ServiceCode": "vpc", "QuotaCode": "L-1216C47A"}`:           "NoSuchResourceException",
		`GetAWSDefaultServiceQuota {"ServiceCode": "ec2", "QuotaCode": "L-0"}`:        "NoSuchResourceException",
		`ListServiceQuotas {"ServiceCode": "ec2"}`:                                    "InvalidAction",
		`GetAWSDefaultServiceQuota {"ServiceCode": "ec2", "QuotaCode": "L-1216C47A"}`: "",
	} {
		operation, body, _ := strings.Cut(call, " ")
		answer := w.callJSON(quotasTarget+operation, body)
		if code, _ := answer["__type"].(string); code != want {
			t.Errorf("%s: %v, want %q", call, answer, want)
		}
	}
	if w.Quotas.SetQuota("ec2", "L-0", 1) == nil || w.Quotas.SetQuota("ec2", "L-1216C47A", -1) == nil {
		t.Error("a quota that does not exist, and one below zero, were set")
	}
}

// A changed quota is still there after a restart.
func TestQuotasAreStored(t *testing.T) {
	o := sim.Options{Clock: newClock(), Account: cluster.Account{ID: "123456789012", Region: "eu-west-1"},
		Path: filepath.Join(t.TempDir(), "fleet.db")}
	for range 2 {
		f, err := sim.Open(o)
		if err != nil {
			t.Fatal(err)
		}
		if hasRoom := f.Quotas.HasRoom("m5.large"); o.Seed == 1 && hasRoom {
			t.Error("the quota is forgotten")
		}
		if err := f.Quotas.SetQuota("ec2", "L-1216C47A", 1); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		o.Seed, o.Clock = 1, newClock()
	}
}
