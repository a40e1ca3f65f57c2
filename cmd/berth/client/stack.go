package client

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/smithy-go"

	"berth/shared/awsapi"
	"berth/shared/wire/transport"
)

// findStack asks CloudFormation for the stack, and returns the function URL among its outputs.
func (e Endpoint) findStack(ctx context.Context) (*Target, error) {
	conf, err := e.loadAccount(ctx)
	if err != nil {
		return nil, fmt.Errorf("--stack %s: %w", e.Stack, err)
	}
	service := cloudformation.NewFromConfig(conf, func(o *cloudformation.Options) { o.HTTPClient = awsapi.HTTP{} })
	out, err := service.DescribeStacks(ctx, &cloudformation.DescribeStacksInput{StackName: &e.Stack})
	if err != nil {
		return nil, e.stackError(conf.Region, err)
	}
	if len(out.Stacks) != 1 {
		return nil, fmt.Errorf("--stack %s: CloudFormation names %d stacks, expected 1", e.Stack, len(out.Stacks))
	}
	t, err := targetOf(&out.Stacks[0])
	if err != nil {
		return nil, fmt.Errorf("--stack %s: %w", e.Stack, err)
	}
	t.config, t.credentials = conf, conf.Credentials
	t.Region = regionOf(t.Host)
	// An emulator of AWS serves the function URL at its own address, by the Host header.
	if base := aws.ToString(service.Options().BaseEndpoint); base != "" {
		if u, err := url.Parse(base); err == nil && transport.IsLoopback(u.Host) {
			t.URL = &url.URL{Scheme: u.Scheme, Host: u.Host, Path: t.URL.Path}
		}
	}
	return t, nil
}

// loadAccount returns the SDK's configuration, which must have credentials and a Region.
func (e Endpoint) loadAccount(ctx context.Context) (aws.Config, error) {
	conf, err := e.loadConfig(ctx, false)
	if err == nil {
		err = retrieveCredentials(ctx, conf)
	}
	if err == nil && conf.Region == "" {
		err = errNoRegion
	}
	return conf, err
}

// targetOf reads the outputs of the stack.
func targetOf(stack *types.Stack) (*Target, error) {
	outputs := map[string]string{}
	for _, o := range stack.Outputs {
		outputs[aws.ToString(o.OutputKey)] = aws.ToString(o.OutputValue)
	}
	api := outputs["ApiUrl"]
	if api == "" {
		return nil, fmt.Errorf("the stack, which is %s, has no output ApiUrl, expected a complete stack of Berth's "+
			"template.yaml", stack.StackStatus)
	}
	t, err := parseEndpoint("ApiUrl", api)
	if err != nil || !isFunctionURLHost(t.Host) {
		return nil, fmt.Errorf("the stack's output ApiUrl is %q, expected a function URL", api)
	}
	t.PolicyARN = outputs["CallerPolicyArn"]
	return t, nil
}

// stackError says what is wrong where CloudFormation does not describe the stack.
func (e Endpoint) stackError(region string, err error) error {
	var refusal smithy.APIError
	if !errors.As(err, &refusal) {
		return fmt.Errorf("--stack %s: asking CloudFormation in %s: %w", e.Stack, region, err)
	}
	switch code, message := refusal.ErrorCode(), refusal.ErrorMessage(); {
	case code == "ValidationError" && strings.Contains(message, "does not exist"):
		return fmt.Errorf("--stack %s: there is no such stack in %s in the account of these credentials; "+
			"are --region and --profile right?", e.Stack, region)
	case strings.HasPrefix(code, "AccessDenied"):
		return fmt.Errorf("--stack %s: %s; allow cloudformation:DescribeStacks, or give the function URL by --endpoint",
			e.Stack, message)
	default:
		return fmt.Errorf("--stack %s: asking CloudFormation in %s: %s: %s", e.Stack, region, code, message)
	}
}
