package e2e

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"

	"berth/shared/awsapi"
	"berth/tests/cloud"
	"berth/tests/inputs"
	"berth/tests/ministack"
	"berth/tests/servicemodel"
)

// local is the local cloud tier.
type local struct {
	*cloud.Cloud
	log   *logBuffer
	check func(servicemodel.Client) servicemodel.Client
}

// Client returns a client of Berth's ECS API whose calls are checked against botocore's models.
func (l *local) Client() *ecs.Client {
	return ecs.New(l.Cloud.Client().Options(), func(o *ecs.Options) { o.HTTPClient = l.check(o.HTTPClient) })
}

// cloudTimeout is how long, by the machine's clock, a scenario waits for something. That is much
// longer than it takes, because other tests use the processors, too.
const cloudTimeout = 90 * time.Second

func (l *local) Await(done func() bool) bool {
	deadline := time.After(cloudTimeout)
	for tick := time.NewTicker(100 * time.Millisecond); ; {
		if done() {
			return true
		}
		select {
		case <-deadline:
			return false
		case <-tick.C:
		}
	}
}

func (l *local) Now() time.Time { return time.Now() }

// SimulatedConfig returns the configuration of a user of the simulated AWS.
func (l *local) SimulatedConfig() aws.Config {
	return aws.Config{Region: ministack.Region, BaseEndpoint: &l.SimulatedAWS, Credentials: anyone,
		HTTPClient: awsapi.HTTP{}}
}

// CheckHealthNow invokes health-check, which otherwise runs each minute.
func (l *local) CheckHealthNow() error {
	return l.RunSchedule(context.Background(), "health-check", "health")
}

// RunSchedule waits a second first, because other tests use the processors, too.
func (l *local) RunSchedule(ctx context.Context, function, schedule string) error {
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
	}
	answer, err := l.InvokeSchedule(ctx, function, schedule)
	if err == nil && answer != "null" {
		err = errors.New(answer)
	}
	return err
}

// built are the programs of the tier, built once for all tests.
var built struct {
	once    sync.Once
	options cloud.Options
	dir     string // removed after the tests
	err     error
}

// declarePrograms makes the test results depend on the programs that the tests build.
func declarePrograms(t *testing.T) {
	t.Helper()
	inputs.DeclareInputs(t, root, "cmd", "functions", "shared", "tests/cloud", "tests/local", "tests/ministack",
		"go.mod", "go.sum", "infra", "template.yaml", "tools")
}

// buildCommand builds a command of the project.
func buildCommand(t *testing.T, bin, path string) {
	t.Helper()
	declarePrograms(t)
	if out, err := exec.Command("go", "build", "-o", bin, root+"/"+path).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// leftToCheck begins the reason why `make test` skips a test. Its summary counts such tests
// separately.
const leftToCheck = "make check runs it: "

// builtOptions returns the options that name the functions and the berth command.
func builtOptions(t *testing.T) cloud.Options {
	t.Helper()
	if why := ministack.WhyUnavailable(); why != "" {
		t.Skip(why)
	}
	built.once.Do(func() {
		declarePrograms(t)
		if testing.Short() {
			// Not in the project's folder: Go's test cache would take new files for changed inputs.
			if built.dir, built.err = os.MkdirTemp("", "berth-e2e-"); built.err == nil {
				built.options, built.err = cloud.BuildAll(t.Context(), built.dir, cloud.Plain)
			}
			return
		}
		// The folder is kept, so that the next run has less to link.
		built.options, built.err = cloud.BuildAll(t.Context(), filepath.Join(root, ".cache", "e2e"), cloud.AsDeployed)
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.options
}

// newLocal starts a tier. If the test fails, it prints what the tier has logged.
func newLocal(t *testing.T, change func(*cloud.Options)) *local {
	t.Helper()
	o := builtOptions(t)
	models := servicemodel.ForTests(t, root)
	l := &local{log: &logBuffer{}, check: func(next servicemodel.Client) servicemodel.Client {
		return models.Client(t, next)
	}}
	o.Log = l.log
	o.FleetArguments = []string{"--nodes", "0", "--speed", "5", "--launch", "5"}
	o.Parameters = map[string]string{"ThrottleLadderSeconds": "1", "RestartGapSeconds": "1", "SettleSeconds": "3"}
	if change != nil {
		change(&o)
	}
	var err error
	if l.Cloud, err = cloud.Start(t.Context(), o); err != nil {
		t.Fatalf("%v\n%s", err, l.log.lastLines())
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(l.log.lastLines())
			if dir := os.Getenv("KEEP_LOG"); dir != "" {
				_ = os.WriteFile(filepath.Join(dir, "local.log"), l.log.allText(), 0o600)
			}
		}
	})
	return l
}

// TestMain lets scenarios run side by side on few processors, because they mostly wait.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	code := m.Run()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// TestLocalCloud runs the scenarios with every function's role enforced, and then checks which
// calls the functions made.
func TestLocalCloud(t *testing.T) {
	if testing.Short() {
		t.Skip(leftToCheck + "it waits for services, instances and node groups to change on an emulator of AWS")
	}
	t.Parallel() // with TestDocs: both mostly wait
	c, lost := &callLog{}, &lostAnswers{}
	l := newLocal(t, func(o *cloud.Options) {
		o.Tap = &cloud.Tap{Before: lost.beforeCall, After: c.addCall, Lose: lost.takeLoss}
		o.Parameters["RecheckSeconds"], o.Parameters["ThrottleLadderSeconds"],
			o.Parameters["SettleHealthySeconds"] = "1", "1,3", "2"
	})
	t.Run("Doctor", func(t *testing.T) { examineFaults(t, l) })
	t.Run("Scenarios", func(t *testing.T) {
		t.Run("Services", func(t *testing.T) {
			t.Parallel()
			t.Run("ServiceScenario", func(t *testing.T) { runServiceScenario(t, l) })
			t.Run("RolloutScenario", func(t *testing.T) { runRolloutScenario(t, l) })
			t.Run("ClassicScenario", func(t *testing.T) { runClassicScenario(t, l) })
		})
		t.Run("ChaosScenario", func(t *testing.T) {
			t.Parallel()
			runChaosScenario(t, l)
		})
		t.Run("CapacityScenario", func(t *testing.T) {
			t.Parallel()
			runCapacityScenario(t, l, false)
		})
		t.Run("MadeNodeGroupScenario", func(t *testing.T) {
			t.Parallel()
			runMadeScenario(t, l, "MINIMAL")
		})
		t.Run("NodeGroupScenario", func(t *testing.T) {
			t.Parallel()
			// MINIMAL, because DEFAULT removes its surplus node by node, a minute each.
			runNodeGroupScenario(&nodeGroupScenario{capacityScenario: newCapacityScenario(t, l, "yard"),
				strategy: "MINIMAL", failNext: func(_ *capacityScenario, spoilt bool) string {
					if spoilt {
						lost.refuseOnce("UpdateContainerInstancesState", l.Caller)
					}
					return "AccessDenied"
				}})
		})
	})
	if t.Failed() {
		return
	}
	t.Run("Attacks", func(t *testing.T) { attack(t, l) })
	t.Run("OperationsPassedOn", func(t *testing.T) { forwardOperations(t, l) })
	t.Run("LostAnswersAndAgents", func(t *testing.T) { resolveUnknownStart(t, l, c, lost) })
	t.Run("AClusterDeletedBehindBerthsBack", func(t *testing.T) { deleteClusterAtECS(t, l) })
	used := l.sampleCalls(c.callsSince(0))
	t.Run("RolesGrantNothingElse", func(t *testing.T) { checkGrantsAreUsed(t, used) })
	t.Run("EveryGrantIsEnforced", func(t *testing.T) { checkGrantsAreEnforced(t, l, used) })
	t.Run("ConditionsOnGroupsAreEnforced", func(t *testing.T) { checkConditionsOnGroups(t, l, used) })
	t.Run("ConditionsOnNewGroupsAreEnforced", func(t *testing.T) { checkConditionsOnNewGroups(t, l, used) })
	t.Run("AFunctionWithoutAGrantFailsUntilItIsBack", func(t *testing.T) { checkWithoutGrants(t, l, c) })
}

// A logBuffer keeps what processes print.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) allText() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return bytes.Clone(b.text.Bytes())
}

// lastLines returns the last hundred lines.
func (b *logBuffer) lastLines() string {
	lines := strings.Split(strings.TrimRight(string(b.allText()), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-100):], "\n")
}
