package e2e

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"

	"berth/cmd/berth/installation"
	"berth/shared/embedded"
	"berth/shared/handler"
	"berth/shared/sim/ec2"
	"berth/tests/servicemodel"
)

// A Tier is one way to run Berth with a simulated AWS. A scenario knows nothing else about it.
type Tier interface {
	// Client returns a client of Berth's ECS API.
	Client() *ecs.Client
	// Await lets time pass until done, and returns false if that takes too long.
	Await(done func() bool) bool
	// AddInstances adds n machines of an EC2 type to a cluster, in the zones by turns.
	AddInstances(cluster string, n int, machine string, zones []string) error
	// CrashTask lets a task exit by itself, KillInstance terminates a machine. The ids are ECS's.
	CrashTask(id string, exitCode int) error
	KillInstance(id string) error
}

// virtual is the embedded tier on a virtual clock. Everything happens in the goroutine that waits
// for it.
type virtual struct {
	*installation.Installation
	api    http.Handler // of Berth, checked against botocore's models
	client *ecs.Client
}

// virtualTimeout is how long, by the virtual clock, a scenario waits for something.
const virtualTimeout = 10 * time.Minute

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newVirtual(t *testing.T) *virtual {
	t.Helper()
	loop := embedded.NewVirtualLoop(epoch)
	i, err := installation.Open(installation.Options{
		Loop: loop, Seed: 1,
		WrapClock: func(string, handler.Clock) handler.Clock { return steppingClock{loop} },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := i.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := i.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	api := servicemodel.ForTests(t, root).Check(t, i.Server)
	return &virtual{Installation: i, api: api, client: newClient("http://127.0.0.1", inlineClient{api})}
}

// A steppingClock advances the virtual clock when an API call sleeps: nothing else would.
type steppingClock struct{ *embedded.Loop }

func (c steppingClock) Sleep(_ context.Context, d time.Duration) error {
	c.RunUntil(c.Now().Add(d))
	return nil
}

// An inlineClient answers HTTP requests in the goroutine of the caller.
type inlineClient struct{ handler http.Handler }

func (i inlineClient) Do(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	in := r.Clone(r.Context())
	in.Host = r.URL.Host
	if in.Body == nil {
		in.Body = http.NoBody
	}
	i.handler.ServeHTTP(w, in)
	return w.Result(), nil
}

// newClient returns a client that signs with arbitrary credentials, as users of the embedded tier
// do. It does not repeat failed calls.
func newClient(endpoint string, transport ecs.HTTPClient) *ecs.Client {
	return ecs.New(ecs.Options{
		BaseEndpoint: aws.String(endpoint), Region: "us-east-1", RetryMaxAttempts: 1, HTTPClient: transport,
		Credentials: anyone,
	})
}

// anyone provides credentials that belong to nobody.
var anyone = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
	return aws.Credentials{AccessKeyID: "any", SecretAccessKey: "any"}, nil
})

func (v *virtual) Client() *ecs.Client { return v.client }

func (v *virtual) Now() time.Time { return v.Loop.Now() }

func (v *virtual) Await(done func() bool) bool {
	for end := v.Loop.Now().Add(virtualTimeout); v.Loop.Now().Before(end); v.Loop.RunUntil(v.Loop.Now().Add(time.Second)) {
		if done() {
			return true
		}
	}
	return false
}

func (v *virtual) AddInstances(cluster string, n int, machine string, zones []string) error {
	_, err := v.AWS.Machines.AddInstances(cluster, n, ec2.Machine{Type: machine, Zones: zones})
	return err
}

func (v *virtual) CrashTask(id string, exitCode int) error {
	return v.AWS.Machines.CrashTask(id, exitCode)
}

func (v *virtual) KillInstance(id string) error { return v.AWS.Machines.KillInstance(id) }
