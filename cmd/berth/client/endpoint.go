package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/smithy-go/logging"

	"berth/shared/wire/transport"
)

// Endpoint is the flags of every command that talks to a running Berth: where its API is, and with
// which credentials requests are signed.
type Endpoint struct {
	// On AWS it is the function URL.
	Endpoint string `help:"The API ($AWS_ENDPOINT_URL_ECS, $AWS_ENDPOINT_URL or ${endpoint})." placeholder:"URL"`
	Stack    string `help:"Find the API by its CloudFormation stack ($BERTH_STACK)." placeholder:"NAME"`
	Profile  string `help:"Profile of the AWS credentials." placeholder:"NAME"`
	Region   string `help:"AWS Region of the stack." placeholder:"REGION"`
}

// Validate refuses flags that cannot be right.
func (e Endpoint) Validate() error {
	if e.Stack != "" && e.Endpoint != "" {
		return fmt.Errorf("--endpoint is %q, expected none beside --stack %s", e.Endpoint, e.Stack)
	}
	if e.Endpoint == "" {
		return nil
	}
	_, err := parseEndpoint("--endpoint", e.Endpoint)
	return err
}

// DefaultEndpoint is where `berth up` listens by default.
const DefaultEndpoint = "http://127.0.0.1:5252"

// Target is where the API is, and how requests to it are signed.
type Target struct {
	// URL is where requests go; its path ends in a slash. Host is their Host header.
	URL  *url.URL
	Host string
	// Region is that of the signatures. A function URL takes only those for the service lambda.
	Region        string
	IsFunctionURL bool
	// PolicyARN is the policy that callers need, if the stack is known.
	PolicyARN string

	config aws.Config
	// credentials is nil if there are none, which only an API on this machine may accept; then
	// withoutCredentials says why.
	credentials        aws.CredentialsProvider
	withoutCredentials error
}

// FindTarget returns where the API is. With a stack's name it asks CloudFormation. A flag counts
// before the environment, where a stack counts before an endpoint: an emulator of AWS has both. It
// looks for credentials as the SDK does, and fails without any unless the API is on this machine.
func FindTarget(ctx context.Context, e Endpoint) (*Target, error) {
	if err := e.Validate(); err != nil {
		return nil, err
	}
	if e.Endpoint == "" {
		e.Stack = cmp.Or(e.Stack, os.Getenv("BERTH_STACK"))
	}
	if e.Stack != "" {
		return e.findStack(ctx)
	}
	from, text := "--endpoint", cmp.Or(e.Endpoint, DefaultEndpoint)
	for _, variable := range []string{"AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_ECS"} {
		if v := os.Getenv(variable); e.Endpoint == "" && v != "" {
			from, text = variable, v
		}
	}
	t, err := parseEndpoint(from, text)
	if err != nil {
		return nil, err
	}
	if err := e.addCredentials(ctx, t); err != nil {
		return nil, err
	}
	return t, nil
}

// parseEndpoint returns a target without credentials. An error names the flag or the variable that the text is
// from.
func parseEndpoint(from, text string) (*Target, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%s is %q, expected a URL such as %s", from, text, DefaultEndpoint)
	}
	t := &Target{URL: &url.URL{Scheme: u.Scheme, Host: u.Host, Path: strings.TrimSuffix(u.Path, "/") + "/"},
		Host: u.Host}
	// An emulator also serves function URLs at a path such as /_aws/lambda-url/ID/.
	t.IsFunctionURL = isFunctionURLHost(u.Hostname()) || strings.Contains(u.Path, "/lambda-url/")
	return t, nil
}

// isFunctionURLHost reports whether a host is ID.lambda-url.REGION.on.aws.
func isFunctionURLHost(host string) bool { return strings.Contains(host, ".lambda-url.") }

// regionOf returns the Region in a function URL's host, ID.lambda-url.REGION.on.aws, or nothing.
func regionOf(host string) string {
	_, rest, _ := strings.Cut(host, ".lambda-url.")
	region, _, _ := strings.Cut(rest, ".")
	return region
}

// IsLocal reports whether requests stay on this machine.
func (t *Target) IsLocal() bool { return transport.IsLoopback(t.URL.Host) }

// Transport returns how requests reach the API: with the certificates of AWS_CA_BUNDLE or of the
// profile, as the SDK's own.
func (t *Target) Transport() *http.Transport {
	if c, ok := t.config.HTTPClient.(*awshttp.BuildableClient); ok {
		return c.GetTransport()
	}
	return http.DefaultTransport.(*http.Transport).Clone()
}

// addCredentials finds what requests are signed with. An API on this machine may take requests
// without a signature, so there credentials that do not work are left out, unless a profile was
// asked for.
func (e Endpoint) addCredentials(ctx context.Context, t *Target) error {
	conf, err := e.loadConfig(ctx, t.IsLocal())
	if err == nil {
		err = retrieveCredentials(ctx, conf)
	}
	switch {
	case err == nil:
		t.config, t.credentials = conf, conf.Credentials
	case t.IsLocal() && e.Profile == "":
		t.config, t.withoutCredentials = aws.Config{Region: conf.Region}, err
	default:
		return err
	}
	t.Region = cmp.Or(regionOf(t.Host), t.config.Region)
	if t.Region == "" && t.IsLocal() {
		t.Region = "us-east-1"
	}
	if t.Region == "" {
		return errNoRegion
	}
	return nil
}

var errNoRegion = errors.New("no AWS Region: give --region, or set AWS_REGION")

// loadConfig returns the SDK's configuration. For an API on this machine it does not ask the
// instance metadata service, because most machines have none and the search takes seconds. The SDK's
// own log is left out: what it warns of is in the error, if there is one.
func (e Endpoint) loadConfig(ctx context.Context, local bool) (aws.Config, error) {
	options := []func(*config.LoadOptions) error{config.WithLogger(logging.Nop{})}
	if e.Profile != "" {
		options = append(options, config.WithSharedConfigProfile(e.Profile))
	}
	if e.Region != "" {
		options = append(options, config.WithRegion(e.Region))
	}
	if local {
		options = append(options, config.WithEC2IMDSClientEnableState(imds.ClientDisabled))
	}
	conf, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return conf, credentialsError(err)
	}
	return conf, nil
}

func retrieveCredentials(ctx context.Context, conf aws.Config) error {
	if conf.Credentials == nil {
		return credentialsError(errors.New("none are configured"))
	}
	if _, err := conf.Credentials.Retrieve(ctx); err != nil {
		return credentialsError(err)
	}
	return nil
}

// credentialsError says what to do without credentials.
func credentialsError(err error) error {
	return fmt.Errorf("finding AWS credentials: %w; set AWS_PROFILE or give --profile, "+
		"and with IAM Identity Center run `aws sso login`", err)
}
