package environment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"berth/functions/internal/trace"
	"berth/shared/awsapi"
)

// loadAWSConfig reads the variables that Lambda sets, and those that choose endpoints. The SDK's
// package config reads them as well, but brings the clients of four services along, with which
// users sign in: Lambda would load them at each cold start.
func loadAWSConfig(tracer *trace.Tracer) (aws.Config, error) {
	keys := aws.Credentials{
		AccessKeyID: os.Getenv("AWS_ACCESS_KEY_ID"), SecretAccessKey: os.Getenv("AWS_SECRET_ACCESS_KEY"),
		SessionToken: os.Getenv("AWS_SESSION_TOKEN"), Source: "environment",
	}
	region := cmp.Or(os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"))
	if region == "" || !keys.HasKeys() {
		return aws.Config{}, errors.New("AWS_REGION, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY must be set")
	}
	c := aws.Config{
		Region: region, Credentials: credentials.StaticCredentialsProvider{Value: keys},
		// A hanging connection must not use up the function's time. No operation that functions
		// call takes long.
		HTTPClient: tracer.WrapClient(awsapi.HTTP{
			Client: awshttp.NewBuildableClient().WithTimeout(10 * time.Second),
		}),
		ConfigSources: []any{endpointVariables{}},
	}
	if url := os.Getenv("AWS_ENDPOINT_URL"); url != "" {
		c.BaseEndpoint = &url
	}
	return c, nil
}

// endpointVariables are the variables that choose the endpoints of services. The SDK's clients look
// for these methods in [aws.Config.ConfigSources].
type endpointVariables struct{}

// GetServiceBaseEndpoint returns AWS_ENDPOINT_URL_SERVICE, with the service as its SDK id: "Auto
// Scaling" is AWS_ENDPOINT_URL_AUTO_SCALING.
func (endpointVariables) GetServiceBaseEndpoint(
	_ context.Context, sdkID string,
) (url string, found bool, err error) {
	url = os.Getenv("AWS_ENDPOINT_URL_" + strings.ReplaceAll(strings.ToUpper(sdkID), " ", "_"))
	return url, url != "", nil
}

// GetUseFIPSEndpoint returns AWS_USE_FIPS_ENDPOINT.
func (endpointVariables) GetUseFIPSEndpoint(
	context.Context,
) (state aws.FIPSEndpointState, found bool, err error) {
	on, found, err := boolVariable("AWS_USE_FIPS_ENDPOINT")
	if on {
		return aws.FIPSEndpointStateEnabled, found, err
	}
	return aws.FIPSEndpointStateDisabled, found, err
}

// GetUseDualStackEndpoint returns AWS_USE_DUALSTACK_ENDPOINT.
func (endpointVariables) GetUseDualStackEndpoint(
	context.Context,
) (state aws.DualStackEndpointState, found bool, err error) {
	on, found, err := boolVariable("AWS_USE_DUALSTACK_ENDPOINT")
	if on {
		return aws.DualStackEndpointStateEnabled, found, err
	}
	return aws.DualStackEndpointStateDisabled, found, err
}

func boolVariable(name string) (on, found bool, err error) {
	switch v := os.Getenv(name); {
	case v == "":
		return false, false, nil
	case strings.EqualFold(v, "true"), strings.EqualFold(v, "false"):
		return strings.EqualFold(v, "true"), true, nil
	default:
		return false, false, fmt.Errorf("%s is %q, expected true or false", name, v)
	}
}
