package contract

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	cw "github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/transport/http/protocol/awsquery"

	"berth/shared/cluster"
	"berth/shared/embedded"
	"berth/shared/sim"
)

// A scaler is an implementation of Auto Scaling, EC2 and CloudWatch.
type scaler struct {
	config aws.Config
	// awaitPending lets pending changes happen.
	awaitPending func()
	// cloudWatch changes the options of CloudWatch's client.
	cloudWatch func(*cw.Options)
	// knownDifferences are the clauses that it does not satisfy, with the reason.
	knownDifferences map[string]string
}

func motoScaler(t *testing.T) *scaler {
	return &scaler{
		config: configFor(motoEndpoint(t)), awaitPending: func() {},
		cloudWatch: func(o *cw.Options) { // moto does not know CBOR; the adapter is the same
			o.Protocol = awsquery.New(&smithy.ServiceSchema{Version: "2010-08-01"})
		},
		knownDifferences: map[string]string{
			"NoSuchGroup":                      "moto fails itself where there is no such group",
			"ADesiredCapacityWithinTheBounds":  "moto takes any",
			"ATerminationWaitsForItsHook":      "moto terminates at once",
			"AnAlarmFiresWhereTheMetricIsLow":  "moto's alarms watch nothing",
			"APolicyHasTheGroupFollowAMetric":  "moto's policies follow nothing",
			"ALaunchThatFailedIsTold":          "moto's launches do not fail",
			"NoMoreThanFiftyInstancesAtOnce":   "moto takes any number",
			"ATemplateThatIsNotThereIsRefused": "moto answers a validation error of its own",
			"TypesAreFoundByAttributes":        "moto fails itself at a selection by attributes",
		},
	}
}

func simulatedScaler(t *testing.T) *scaler {
	t.Helper()
	loop := embedded.NewVirtualLoop(time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC))
	f, err := sim.Open(sim.Options{Clock: clock{loop}, Account: cluster.Account{ID: "123456789012", Region: region}})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(f.ServeProtocols(http.NotFoundHandler()))
	t.Cleanup(server.Close)
	return &scaler{config: configFor(server.URL),
		awaitPending: func() { loop.RunUntil(loop.Now().Add(10 * time.Minute)) }}
}

// onScalers runs a suite on each implementation. Known differences in clauses of other suites do
// not matter.
func onScalers(t *testing.T, clauses func(*testing.T, *scaler) []clause) {
	for name, open := range map[string]func(*testing.T) *scaler{"Moto": motoScaler, "Fleet": simulatedScaler} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			all, differs := clauses(t, s), map[string]string{}
			for _, c := range all {
				if why, ok := s.knownDifferences[c.name]; ok {
					differs[c.name] = why
				}
			}
			checkClauses(t, differs, all)
		})
	}
}

// createTemplate creates a launch template with two versions and returns its id.
func (s *scaler) createTemplate(t *testing.T, name string) string {
	t.Helper()
	client := ec2.NewFromConfig(s.config)
	data := &types.RequestLaunchTemplateData{ImageId: aws.String("ami-12c6146b"),
		InstanceType: types.InstanceTypeT3Micro}
	out, err := client.CreateLaunchTemplate(t.Context(),
		&ec2.CreateLaunchTemplateInput{LaunchTemplateName: &name, LaunchTemplateData: data})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.CreateLaunchTemplateVersion(t.Context(),
		&ec2.CreateLaunchTemplateVersionInput{LaunchTemplateName: &name, LaunchTemplateData: data})
	if err != nil {
		t.Fatal(err)
	}
	return *out.LaunchTemplate.LaunchTemplateId
}
