package account

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"berth/cmd/berth/client"
	"berth/cmd/berth/doctor"
)

var (
	standard = doctor.QuotaID{Service: "ec2", Code: "L-1216C47A"}
	spotGPUs = doctor.QuotaID{Service: "ec2", Code: "L-3819A6DF"}
)

// answerQuotas answers as the services of an account: it has quotas of its own except of network
// interfaces, which only AWS's default bounds, and no Spot Instance has ever run in it.
func answerQuotas(w http.ResponseWriter, r *http.Request) {
	if target := r.Header.Get("X-Amz-Target"); target != "" {
		var in struct{ QuotaCode, MetricName string }
		_ = json.NewDecoder(r.Body).Decode(&in) // what it lacks is answered as unknown
		_, operation, _ := strings.Cut(target, ".")
		switch operation + " " + in.QuotaCode + in.MetricName {
		case "GetServiceQuota " + doctor.LaunchTemplates.Code:
			_, _ = io.WriteString(w, `{"Quota": {"Value": 7000}}`)
		case "GetAWSDefaultServiceQuota " + doctor.NetworkInterfaces.Code:
			_, _ = io.WriteString(w, `{"Quota": {"Value": 5000}}`)
		case "GetServiceQuota " + standard.Code:
			_, _ = io.WriteString(w, `{"Quota": {"Value": 32, "UsageMetric": {"MetricName": "Standard"}}}`)
		case "GetServiceQuota " + spotGPUs.Code:
			_, _ = io.WriteString(w, `{"Quota": {"Value": 96, "UsageMetric": {"MetricName": "Spot"}}}`)
		case "GetMetricStatistics Standard":
			_, _ = io.WriteString(w, `{"Datapoints": [{"Timestamp": 100, "Maximum": 8}, {"Timestamp": 160, "Maximum": 12},
				{"Timestamp": 40, "Maximum": 30}]}`)
		case "GetMetricStatistics Spot":
			_, _ = io.WriteString(w, `{"Datapoints": []}`)
		default:
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"__type": "NoSuchResourceException", "message": "no such quota"}`)
		}
		return
	}
	switch r.FormValue("Action") + r.FormValue("NextToken") {
	case "DescribeLaunchTemplates":
		_, _ = io.WriteString(w, `<R><launchTemplates><item><launchTemplateId>1</launchTemplateId></item><item>`+
			`<launchTemplateId>2</launchTemplateId></item></launchTemplates><nextToken>rest</nextToken></R>`)
	case "DescribeLaunchTemplatesrest":
		_, _ = io.WriteString(w, `<R><launchTemplates><item><launchTemplateId>3</launchTemplateId></item>`+
			`</launchTemplates></R>`)
	case "DescribeNetworkInterfaces":
		_, _ = io.WriteString(w, `<R><networkInterfaceSet><item><networkInterfaceId>4</networkInterfaceId></item>`+
			`</networkInterfaceSet></R>`)
	case "DescribeInstanceTypes":
		_, _ = io.WriteString(w, "<R><instanceTypeSet>")
		for n := 1; r.FormValue(fmt.Sprint("InstanceType.", n)) != "" && n <= 100; n++ { // EC2 takes no more
			_, _ = fmt.Fprintf(w, "<item><instanceType>%s</instanceType><vCpuInfo><defaultVCpus>2</defaultVCpus>"+
				"</vCpuInfo></item>", r.FormValue(fmt.Sprint("InstanceType.", n)))
		}
		_, _ = io.WriteString(w, "</instanceTypeSet></R>")
	}
}

// A quota is the account's, or AWS's default if the account has none. What is used is the newest
// value of its metric, or the number of things on all pages.
func TestReadQuotas(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(answerQuotas))
	defer server.Close()
	for _, service := range []string{"", "_EC2", "_CLOUDWATCH", "_SERVICE_QUOTAS"} {
		t.Setenv("AWS_ENDPOINT_URL"+service, server.URL)
	}
	group := doctor.Group{Spot: []string{"g5.xlarge"}}
	for n := range 100 {
		group.OnDemand = append(group.OnDemand, fmt.Sprintf("m5.x%d", n))
	}
	f := &doctor.Facts{Groups: map[string]doctor.Read[doctor.Group]{"workers": {Got: group}}}
	r := &quotaReader{&services{Options{CallTimeout: time.Minute, AWS: client.NewAWS(aws.Config{Region: "eu-west-1",
		Credentials: credentials.NewStaticCredentialsProvider("AKIAANN", "secret", "")}, time.Now)}}}
	r.readQuotas(t.Context(), f)
	for id, want := range map[doctor.QuotaID]doctor.Quota{
		doctor.LaunchTemplates:   {Value: 7000, Used: doctor.Read[float64]{Got: 3}},
		doctor.NetworkInterfaces: {Value: 5000, Used: doctor.Read[float64]{Got: 1}},
		standard:                 {Value: 32, Used: doctor.Read[float64]{Got: 12}},
		spotGPUs:                 {Value: 96, Used: doctor.Read[float64]{Err: doctor.ErrNoDatapoint}},
	} {
		got := f.Quotas[id]
		if got.Err != nil || got.Got.Value != want.Value || got.Got.Used.Got != want.Used.Got ||
			!errors.Is(got.Got.Used.Err, want.Used.Err) {
			t.Errorf("%s: got %+v, want %+v", id.Code, got, want)
		}
	}
	if f.VCPUs.Err != nil || len(f.VCPUs.Got) != 101 || f.VCPUs.Got["m5.x99"] != 2 {
		t.Errorf("the sizes of %d types are known (%v), want 101", len(f.VCPUs.Got), f.VCPUs.Err)
	}
}
