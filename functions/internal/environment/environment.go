package environment

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/ecs"

	"berth/functions/internal/trace"
	"berth/shared/awsapi"
	"berth/shared/awsevent"
	"berth/shared/cluster"
	"berth/shared/dynamo"
	"berth/shared/handler"
)

// Environment is a function's environment: its variables, log and clients. Methods that find a
// variable missing or malformed note it and return a default; [Environment.JoinedErrors] has all
// such errors.
type Environment struct {
	// Log writes JSON lines in Lambda's log format, each with the request's id.
	Log *slog.Logger

	out     io.Writer // of the log and the metrics
	request *atomic.Pointer[string]
	lookup  func(string) string
	tracer  *trace.Tracer
	aws     aws.Config
	errs    []error
}

// LoadProcess reads the process's variables, among them the Region, credentials and endpoints that
// Lambda sets (AWS_ENDPOINT_URL and AWS_ENDPOINT_URL_SERVICE).
func LoadProcess() *Environment {
	e := NewEnvironment(os.Getenv)
	var err error
	if e.aws, err = loadAWSConfig(e.tracer); err != nil {
		e.addError(fmt.Errorf("reading the AWS configuration: %w", err))
	}
	return e
}

// NewEnvironment reads variables through lookup, which returns "" for those that are not set.
func NewEnvironment(lookup func(string) string) *Environment { return NewWithOutput(os.Stdout, lookup) }

// NewWithOutput is [NewEnvironment] with the log and the metrics written to out.
func NewWithOutput(out io.Writer, lookup func(string) string) *Environment {
	e := &Environment{out: out, request: &atomic.Pointer[string]{}, lookup: lookup}
	e.Log = slog.New(requestHandler{NewLogger(out, lookup("AWS_LAMBDA_LOG_LEVEL")).Handler(), e.request})
	var err error
	if e.tracer, err = trace.NewTracer(lookup("OTEL_EXPORTER_OTLP_ENDPOINT"), lookup("AWS_LAMBDA_FUNCTION_NAME"),
		e.Log); err != nil {
		e.addError(fmt.Errorf("OTEL_EXPORTER_OTLP_ENDPOINT: %w", err))
	}
	return e
}

// ExitIfInvalid logs what is missing or malformed and ends the process. Lambda reports a failed
// start.
func (e *Environment) ExitIfInvalid() {
	if err := e.JoinedErrors(); err != nil {
		e.Log.Error("reading the environment", "error", err)
		os.Exit(1)
	}
}

// JoinedErrors returns all that is missing or malformed, or nil.
func (e *Environment) JoinedErrors() error { return errors.Join(e.errs...) }

func (e *Environment) addError(err error) { e.errs = append(e.errs, err) }

// RequiredVariable returns a variable that must be set.
func (e *Environment) RequiredVariable(name string) string {
	v := e.lookup(name)
	if v == "" {
		e.addError(fmt.Errorf("%s is not set", name))
	}
	return v
}

// ListVariable returns the values of a variable that are separated by commas, or nil.
func (e *Environment) ListVariable(name string) []string {
	var out []string
	for _, v := range strings.Split(e.lookup(name), ",") {
		if v = strings.TrimSpace(v); v != "" {
			out = append(out, v)
		}
	}
	return out
}

// numberSetting returns a variable that must be a number from least to most, or def if it is not
// set.
func (e *Environment) numberSetting(name string, def, least, most float64) float64 {
	text := e.lookup(name)
	if text == "" {
		return def
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || v != v || v < least || v > most {
		e.addError(fmt.Errorf("%s is %q, expected a number from %g to %g", name, text, least, most))
		return def
	}
	return v
}

// BoolVariable returns a variable that must be true or false, or false if it is not set.
func (e *Environment) BoolVariable(name string) bool {
	switch text := e.lookup(name); text {
	case "true":
		return true
	case "", "false":
	default:
		e.addError(fmt.Errorf("%s is %q, expected true or false", name, text))
	}
	return false
}

// maxSeconds bounds every duration: a week.
const maxSeconds = 7 * 24 * 3600

// ladderSetting returns a variable with seconds that are separated by commas, or def if it is not
// set.
func (e *Environment) ladderSetting(name string, def []time.Duration) []time.Duration {
	var out []time.Duration
	for _, text := range e.ListVariable(name) {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || !(v >= 0 && v <= maxSeconds) {
			e.addError(fmt.Errorf("%s has %q, expected numbers of seconds from 0 to %d", name, text, maxSeconds))
			return def
		}
		out = append(out, time.Duration(v*float64(time.Second)))
	}
	if out == nil {
		return def
	}
	return out
}

// durationSetting returns a variable with seconds, at most a week, or def if it is not set.
func (e *Environment) durationSetting(name string, def time.Duration) time.Duration {
	return time.Duration(e.numberSetting(name, def.Seconds(), 0, maxSeconds) * float64(time.Second))
}

// HandlerSettings returns the default settings, changed by the variables that are set.
func (e *Environment) HandlerSettings() handler.Settings {
	s := handler.DefaultSettings()
	s.Settle = e.durationSetting("SETTLE_SECONDS", s.Settle)
	s.KeepStopped = e.durationSetting("KEEP_STOPPED_SECONDS", s.KeepStopped)
	s.KeepRequests = e.durationSetting("KEEP_REQUESTS_SECONDS", s.KeepRequests)
	s.RequestWait = e.durationSetting("REQUEST_WAIT_SECONDS", s.RequestWait)
	s.RequestPoll = e.durationSetting("REQUEST_POLL_SECONDS", s.RequestPoll)
	s.RetryInterval = e.durationSetting("RECHECK_SECONDS", s.RetryInterval)
	s.RetryIntervalMax = e.durationSetting("RECHECK_MAX_SECONDS", s.RetryIntervalMax)
	s.DisconnectTimeout = e.durationSetting("LOST_AFTER_SECONDS", s.DisconnectTimeout)
	s.UpgradeDomainWait = e.durationSetting("UPGRADE_DOMAIN_WAIT_SECONDS", s.UpgradeDomainWait)
	s.ProviderFallback = e.durationSetting("PROVIDER_FALLBACK_SECONDS", s.ProviderFallback)
	s.StabilizeFor = e.durationSetting("SETTLE_HEALTHY_SECONDS", s.StabilizeFor)
	s.RestartGap = e.durationSetting("RESTART_GAP_SECONDS", s.RestartGap)
	s.BackoffLadder = e.ladderSetting("THROTTLE_LADDER_SECONDS", s.BackoffLadder)
	s.MaxUnhealthyPercent = int(e.numberSetting("UNHEALTHY_SHARE_PERCENT", float64(s.MaxUnhealthyPercent), 1, 100))
	s.ReplacePercent = int(e.numberSetting("WAVE_PERCENT", float64(s.ReplacePercent), 1, 100))
	s.PublishEvents = e.BoolVariable("PUBLISH_EVENTS")
	s.ProvisioningLimit = int(e.numberSetting("PROVISIONING_LIMIT", float64(s.ProvisioningLimit), 0, 1e6))
	s.ServiceLimit = int(e.numberSetting("SERVICE_LIMIT", float64(s.ServiceLimit), 0, 1e6))
	s.ProvisioningTimeout = e.durationSetting("PROVISIONING_TIMEOUT_SECONDS", s.ProvisioningTimeout)
	s.ScalingNamespace = cmp.Or(e.lookup("SCALING_NAMESPACE"), s.ScalingNamespace)
	s.Installation = e.lookup("INSTALLATION")
	s.StartRate = e.numberSetting("START_RATE", s.StartRate, 0.001, 1e6)
	s.StartBurst = e.numberSetting("START_BURST", s.StartBurst, 1, 1e6)
	return s
}

// Account returns where the function runs: ACCOUNT_ID, AWS_REGION and PARTITION (aws if not set).
func (e *Environment) Account() cluster.Account {
	return cluster.Account{ID: e.RequiredVariable("ACCOUNT_ID"), Region: e.RequiredVariable("AWS_REGION"),
		Partition: e.lookup("PARTITION")}
}

// EventDecoder accepts events of this account and Region only, from AWS's own services and from the
// sources in EVENT_SOURCES, ALARM_SOURCES and SCALING_SOURCES.
func (e *Environment) EventDecoder() awsevent.Decoder {
	account := e.Account()
	return awsevent.Decoder{
		Account: account.ID, Region: account.Region, ECSSources: e.ListVariable("EVENT_SOURCES"),
		AlarmSources: e.ListVariable("ALARM_SOURCES"), ScalingSources: e.ListVariable("SCALING_SOURCES"),
	}
}

// StateTable returns the store on the table TABLE_NAME.
func (e *Environment) StateTable() *dynamo.State {
	return &dynamo.State{Client: dynamodb.NewFromConfig(e.aws), Table: e.RequiredVariable("TABLE_NAME")}
}

// ECSClient returns the port to the ECS API.
func (e *Environment) ECSClient() *awsapi.ECS { return &awsapi.ECS{Client: ecs.NewFromConfig(e.aws)} }

// AWSConfig returns the configuration for clients that only some functions need.
func (e *Environment) AWSConfig() aws.Config { return e.aws }

// Networks returns what looks subnets and security groups up at EC2.
func (e *Environment) Networks() *awsapi.Networks { return &awsapi.Networks{Config: e.aws} }

// ECSForwarder returns what forwards operations to ECS.
func (e *Environment) ECSForwarder() *awsapi.Forwarder {
	return &awsapi.Forwarder{Client: ecs.NewFromConfig(e.aws)}
}
