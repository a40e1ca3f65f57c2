package account

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"berth/cmd/berth/client"
)

// api is a service with the form of its calls.
type api struct {
	client.Service
	version     string // of forms
	contentType string // of JSON
	target      string // before the operation's name
}

const jsonOne, jsonZero = "application/x-amz-json-1.1", "application/x-amz-json-1.0"

// The services that are read.
var (
	cloudFormation = api{Service: client.Service{Signing: "cloudformation", Host: "cloudformation",
		Variable: "CLOUDFORMATION"}, version: "2010-05-15"}
	iam         = api{Service: client.Service{Signing: "iam", Host: "iam", Variable: "IAM"}, version: "2010-05-08"}
	autoScaling = api{Service: client.Service{Signing: "autoscaling", Host: "autoscaling", Variable: "AUTO_SCALING"},
		version: "2011-01-01"}
	ec2 = api{Service: client.Service{Signing: "ec2", Host: "ec2", Variable: "EC2"}, version: "2016-11-15"}
	sqs = api{Service: client.Service{Signing: "sqs", Host: "sqs", Variable: "SQS"}, contentType: jsonZero,
		target: "AmazonSQS."}
	events = api{Service: client.Service{Signing: "events", Host: "events", Variable: "EVENTBRIDGE"},
		contentType: jsonOne, target: "AWSEvents."}
	dynamoDB = api{Service: client.Service{Signing: "dynamodb", Host: "dynamodb", Variable: "DYNAMODB"},
		contentType: jsonZero, target: "DynamoDB_20120810."}
	ecs = api{Service: client.Service{Signing: "ecs", Host: "ecs", Variable: "ECS"}, contentType: jsonOne,
		target: "AmazonEC2ContainerServiceV20141113."}
	cloudWatch = api{Service: client.Service{Signing: "monitoring", Host: "monitoring", Variable: "CLOUDWATCH"},
		contentType: jsonZero, target: "GraniteServiceVersion20100801."}
	lambda        = api{Service: client.Service{Signing: "lambda", Host: "lambda", Variable: "LAMBDA"}}
	serviceQuotas = api{Service: client.Service{Signing: "servicequotas", Host: "servicequotas",
		Variable: "SERVICE_QUOTAS"}, contentType: jsonOne, target: "ServiceQuotasV20190624."}
	scheduler = api{Service: client.Service{Signing: "scheduler", Host: "scheduler", Variable: "SCHEDULER"}}
)

// Actions are the permissions that reading uses, sorted. The stack's CallerPolicy comes in
// addition, for Berth's own API.
var Actions = []string{
	"autoscaling:DescribeAccountLimits", "autoscaling:DescribeAutoScalingGroups",
	"autoscaling:DescribeScalingActivities",
	"cloudformation:DescribeStacks", "cloudformation:ListStackResources",
	"cloudwatch:GetMetricStatistics",
	"dynamodb:DescribeTable", "dynamodb:DescribeTimeToLive",
	"ec2:DescribeInstanceTypes", "ec2:DescribeInstances", "ec2:DescribeLaunchTemplateVersions",
	"ec2:DescribeLaunchTemplates", "ec2:DescribeNetworkInterfaces",
	"ecs:DescribeClusters", "ecs:DescribeContainerInstances", "ecs:ListContainerInstances",
	"events:DescribeRule", "events:ListTargetsByRule",
	"iam:GetInstanceProfile", "iam:GetPolicy", "iam:GetPolicyVersion", "iam:GetRole", "iam:GetRolePolicy",
	"iam:ListAttachedRolePolicies", "iam:ListRolePolicies",
	"lambda:GetAccountSettings", "lambda:GetEventSourceMapping", "lambda:GetFunctionConcurrency",
	"lambda:GetFunctionConfiguration",
	"scheduler:GetSchedule",
	"servicequotas:GetAWSDefaultServiceQuota", "servicequotas:GetServiceQuota",
	"sqs:GetQueueAttributes",
}

// callForm calls an action of a service with forms. The members of in are the form's fields.
func (r *services) callForm(ctx context.Context, a api, action string, in map[string]string, out any) error {
	form := url.Values{"Action": {action}, "Version": {a.version}}
	for name, value := range in {
		form.Set(name, value)
	}
	ctx, cancel := context.WithTimeout(ctx, r.options.CallTimeout)
	defer cancel()
	return explain(a.Signing+":"+action, r.options.AWS.CallQuery(ctx, a.Service, form, out))
}

// callJSON calls an operation of a service with JSON.
func (r *services) callJSON(ctx context.Context, a api, operation string, in map[string]any, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	prefix := a.Signing
	if prefix == cloudWatch.Signing {
		prefix = "cloudwatch"
	}
	return r.decode(ctx, prefix+":"+operation, client.Call{Service: a.Service, ContentType: a.contentType,
		Target: a.target + operation, Body: body}, out)
}

// getPath reads a path of a REST service.
func (r *services) getPath(ctx context.Context, a api, action, path string, out any) error {
	return r.decode(ctx, a.Signing+":"+action, client.Call{Service: a.Service, Method: http.MethodGet, Path: path}, out)
}

// decode sends a call, and reads its answer in JSON.
func (r *services) decode(ctx context.Context, action string, c client.Call, out any) error {
	ctx, cancel := context.WithTimeout(ctx, r.options.CallTimeout)
	defer cancel()
	answer, err := r.options.AWS.CallService(ctx, c)
	if err == nil {
		err = json.Unmarshal(answer, out)
	}
	return explain(action, err)
}
