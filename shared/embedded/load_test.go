package embedded_test

import (
	"strings"
	"testing"
	"time"

	"berth/shared/embedded"
)

// whole is a template that uses everything that LoadTemplate knows.
const whole = `
Transform: AWS::Serverless-2016-10-31
Parameters:
  Size: {Type: Number, Default: 7, MinValue: 1, MaxValue: 50}
  Sources: {Type: CommaDelimitedList, Default: "aws.ecs, my.fleet"}
  Stage: {Type: String, Default: test, AllowedValues: [test, prod]}
Globals:
  Function: {Timeout: 20, Handler: bootstrap}
Resources:
  Worker:
    Type: AWS::Serverless::Function
    Properties:
      CodeUri: functions/worker/
      ReservedConcurrentExecutions: !If [A, 1, 2]
      EventInvokeConfig:
        MaximumRetryAttempts: 0
        MaximumEventAgeInSeconds: 90
        DestinationConfig: {OnFailure: {Destination: !GetAtt Dead.Arn, Type: SQS}}
      Events:
        Jobs:
          Type: SQS
          Properties: {Queue: !GetAtt Jobs.Arn, BatchSize: !Ref Size, MaximumBatchingWindowInSeconds: "3", ScalingConfig: {MaximumConcurrency: 4}}
        State:
          Type: DynamoDB
          Properties:
            Stream: {Fn::GetAtt: [Table, StreamArn]}
            StartingPosition: TRIM_HORIZON
            BatchSize: !Sub "${Size}"
            MaximumRetryAttempts: 9
            MaximumRecordAgeInSeconds: 120
            BisectBatchOnFunctionError: true
            FunctionResponseTypes: [ReportBatchItemFailures]
            DestinationConfig: {OnFailure: {Type: SQS, Destination: !Sub "${Dead.Arn}"}}
            FilterCriteria: {Filters: [{Pattern: '{"eventName": ["INSERT"]}'}]}
        Tick:
          Type: ScheduleV2
          Properties: {ScheduleExpression: rate(5 minutes), Input: !Sub '{"schedule": "${Stage}"}', RetryPolicy: {MaximumRetryAttempts: 1}}
  Jobs:
    Type: AWS::SQS::Queue
    Properties:
      VisibilityTimeout: 40
      DelaySeconds: 5
      KmsMasterKeyId: !If [A, b, c]
      RedrivePolicy: {deadLetterTargetArn: !GetAtt Dead.Arn, maxReceiveCount: 4}
  Dead: {Type: AWS::SQS::Queue}
  Rule:
    Type: AWS::Events::Rule
    Properties:
      EventPattern: {source: !Ref Sources, detail: {n: [{numeric: [">", 1]}]}}
      Targets: [{Id: a, Arn: !GetAtt Jobs.Arn}]
  Table:
    Type: AWS::DynamoDB::Table
    Properties: {StreamSpecification: {StreamViewType: NEW_AND_OLD_IMAGES}}
  Logs: {Type: AWS::Logs::LogGroup, Properties: {RetentionInDays: !FindInMap [a, b, c]}}
`

func TestLoadTemplateReadsAllItKnows(t *testing.T) {
	w, err := embedded.LoadTemplate([]byte(whole), map[string]string{"Stage": "prod"})
	if err != nil {
		t.Fatal(err)
	}
	f := w.Functions["worker"]
	equal(t, "function", []any{f.LogicalID, f.Timeout}, []any{"Worker", 20 * time.Second})
	equal(t, "asynchronous invocations", f.Async, embedded.AsyncConfig{Retries: 0, MaxAge: 90 * time.Second,
		OnFailure: "Dead"})
	equal(t, "queue source", f.Queues, []embedded.QueueSource{{
		Batching: embedded.Batching{BatchSize: 7, Window: 3 * time.Second}, Queue: "Jobs", Concurrency: 4,
	}})
	s := f.Streams[0]
	equal(t, "number of filters", len(s.Filters), 1)
	s.Filters = nil
	equal(t, "stream source", s, embedded.StreamSource{
		Batching: embedded.Batching{BatchSize: 7, Partial: true}, Table: "Table", Retries: 9, MaxAge: 2 * time.Minute,
		Bisect: true, OnFailure: "Dead",
	})
	equal(t, "schedule", f.Schedules, []embedded.ScheduleSource{{Every: 5 * time.Minute, Schedule: "prod"}})
	equal(t, "queue", *w.Queues["Jobs"], embedded.QueueWiring{
		Name: "Jobs", Visibility: 40 * time.Second, Delay: 5 * time.Second, MaxReceives: 4, DeadLetters: "Dead",
	})
	equal(t, "rule", []any{w.Rules[0].Name, w.Rules[0].Queues}, []any{"Rule", []string{"Jobs"}})
	if p := w.Rules[0].Pattern; !p.MatchesEvent([]byte(`{"source": "my.fleet", "detail": {"n": 2}}`)) ||
		p.MatchesEvent([]byte(`{"source": "x", "detail": {"n": 2}}`)) {
		t.Error("the rule does not follow the parameter Sources")
	}
	equal(t, "parameters", w.Parameters, map[string]string{"Size": "7", "Sources": "aws.ecs, my.fleet",
		"Stage": "prod"})
}

// TestLoadTemplateNamesWhatItRefuses changes one place of a valid template. The error must name
// that place.
func TestLoadTemplateNamesWhatItRefuses(t *testing.T) {
	const worker, jobsEvent = "Resources.Worker.Properties", "Resources.Worker.Properties.Events.Jobs.Properties"
	const state, tick = "Resources.Worker.Properties.Events.State.Properties",
		"Resources.Worker.Properties.Events.Tick.Properties"
	for _, c := range []struct{ name, old, new, want string }{
		{"Resource", "AWS::Logs::LogGroup", "AWS::Lambda::EventSourceMapping",
			`Resources.Logs.Type: the embedded tier does not know resources of type "AWS::Lambda::EventSourceMapping"`},
		{"ResourceCondition", "Type: AWS::Events::Rule", "Type: AWS::Events::Rule\n    Condition: A",
			"Resources.Rule.Condition: the embedded tier does not know this"},
		{"FunctionProperty", "EventInvokeConfig:", "DeadLetterQueue: {}\n      EventInvokeConfig:",
			worker + ".DeadLetterQueue: the embedded tier does not know this"},
		{"GlobalProperty", "Handler: bootstrap", "EventInvokeConfig: {}",
			"Globals.Function.EventInvokeConfig: the embedded tier does not know this"},
		{"Section", "Globals:", "Whatever: {}\nGlobals:", "template.Whatever: the embedded tier does not know this"},
		{"CodeUri", "CodeUri: functions/worker/", "Description: x",
			worker + ".CodeUri: must name the function's folder"},
		{"EventType", "Type: SQS\n", "Type: SNS\n",
			worker + `.Events.Jobs.Type: the embedded tier does not know events of type "SNS"`},
		{"EventProperty", "BatchSize: !Ref Size,", "FilterCriteria: {Filters: []},",
			jobsEvent + ".FilterCriteria: the embedded tier does not know this"},
		{"ConditionInAnEvent", "BatchSize: !Ref Size", "BatchSize: !If [A, 1, 2]",
			jobsEvent + ".BatchSize: Fn::If is not supported here"},
		{"LongCondition", "BatchSize: !Ref Size", "BatchSize: {Fn::If: [A, 1, 2]}",
			jobsEvent + ".BatchSize: Fn::If is not supported here"},
		{"ConditionForASection", "ScalingConfig: {MaximumConcurrency: 4}",
			"ScalingConfig: !If [A, {MaximumConcurrency: 4}, {}]",
			jobsEvent + ".ScalingConfig: must be a mapping written out, is Fn::If"},
		{"LongConditionForASection", "ScalingConfig: {MaximumConcurrency: 4}", "ScalingConfig: {Fn::If: [A, 4, 5]}",
			jobsEvent + ".ScalingConfig: Fn::If is not supported here"},
		{"ConditionForAList", "FunctionResponseTypes: [ReportBatchItemFailures]",
			"FunctionResponseTypes: !If [A, [], []]",
			state + ".FunctionResponseTypes: must be a list written out, is Fn::If"},
		{"Join", `BatchSize: !Sub "${Size}"`, `BatchSize: !Join ["", [1]]`,
			state + ".BatchSize: Fn::Join is not supported here"},
		{"UnknownParameterInSub", "${Stage}", "${Stagge}",
			tick + `.Input: the template has no parameter or resource "Stagge"`},
		{"ResourceWithinText", "${Stage}", "${Dead.Arn}",
			tick + `.Input: the template has no parameter or resource "Dead.Arn"`},
		{"UnknownRef", "!Ref Size", "!Ref Sizze",
			jobsEvent + `.BatchSize: the template has no parameter or resource "Sizze"`},
		{"UnknownResource", "Queue: !GetAtt Jobs.Arn", "Queue: !GetAtt Jbos.Arn",
			jobsEvent + `.Queue: the template has no resource "Jbos"`},
		{"ResourceOfAnotherType", "Queue: !GetAtt Jobs.Arn", "Queue: !GetAtt Table.Arn",
			jobsEvent + ".Queue: Table is not a resource of type AWS::SQS::Queue in this template"},
		{"QueueByRef", "Queue: !GetAtt Jobs.Arn", "Queue: !Ref Jobs",
			jobsEvent + ".Queue: must be !GetAtt of the Arn of a resource"},
		{"QueueByARN", "Queue: !GetAtt Jobs.Arn", "Queue: arn:aws:sqs:us-east-1:1:q",
			jobsEvent + ".Queue: must be !GetAtt of the Arn of a resource"},
		{"QueueMissing", "Queue: !GetAtt Jobs.Arn, ", "",
			jobsEvent + ".Queue: must be !GetAtt of the Arn of a resource"},
		{"NotANumber", `"3"`, "x", jobsEvent + ".MaximumBatchingWindowInSeconds: must be a whole number, is x"},
		{"TooMuch", `"3"`, "301", jobsEvent + ".MaximumBatchingWindowInSeconds: must be from 0 to 300, is 301"},
		{"OneAtATime", "MaximumConcurrency: 4", "MaximumConcurrency: 1",
			jobsEvent + ".ScalingConfig.MaximumConcurrency: must be from 2 to 1000, is 1"},
		{"Latest", "TRIM_HORIZON", "LATEST", state + ".StartingPosition: must be TRIM_HORIZON"},
		{"Parallel", "MaximumRetryAttempts: 9", "ParallelizationFactor: 2",
			state + ".ParallelizationFactor: must be 1, is 2"},
		{"Tumbling", "MaximumRetryAttempts: 9", "TumblingWindowInSeconds: 2",
			state + ".TumblingWindowInSeconds: the embedded tier does not know this"},
		{"Batch", "BatchSize: !Sub \"${Size}\"", "BatchSize: 10001", state + ".BatchSize: must be from 1 to 10000, is 10001"},
		{"Age", "MaximumRecordAgeInSeconds: 120", "MaximumRecordAgeInSeconds: 59",
			state + ".MaximumRecordAgeInSeconds: must be -1 or from 60 to 604800, is 59"},
		{"Flag", "BisectBatchOnFunctionError: true", "BisectBatchOnFunctionError: 1",
			state + ".BisectBatchOnFunctionError: must be true or false, is 1"},
		{"ResponseType", "[ReportBatchItemFailures]", "[Whatever]",
			state + ".FunctionResponseTypes[0]: must be ReportBatchItemFailures"},
		{"Topic", "Type: SQS, Destination", "Type: SNS, Destination",
			state + ".DestinationConfig.OnFailure.Type: must be SQS, is SNS"},
		{"Pattern", `{"eventName": ["INSERT"]}`, `{"eventName": [{"wildcard": "I*"}]}`,
			state + ".FilterCriteria.Filters[0].Pattern: pattern.eventName[0].wildcard: this operator is not supported"},
		{"FilterKey", "FilterCriteria: {Filters", "FilterCriteria: {KmsKeyArn: x, Filters",
			state + ".FilterCriteria.KmsKeyArn: the embedded tier does not know this"},
		{"TooManyFilters", `[{Pattern: '{"eventName": ["INSERT"]}'}]`,
			"[" + strings.Repeat(`{Pattern: '{"eventName": ["INSERT"]}'},`, 11) + "]",
			state + ".FilterCriteria.Filters: has 11 filters, at most 10 are allowed"},
		{"Cron", "rate(5 minutes)", "'cron(0 * * * ? *)'",
			tick + ".ScheduleExpression: must be rate(N minutes), hours or days"},
		{"RateOfNothing", "rate(5 minutes)", "rate(0 minutes)",
			tick + ".ScheduleExpression: must be rate(N minutes), hours or days"},
		{"Input", `{"schedule": "${Stage}"}`, `{"name": "x"}`, tick + `.Input: must be {"schedule": NAME}`},
		{"TimeZone", "RetryPolicy: {MaximumRetryAttempts: 1}", "ScheduleExpressionTimezone: UTC",
			tick + ".ScheduleExpressionTimezone: the embedded tier does not know this"},
		{"Delay", "DelaySeconds: 5", "DelaySeconds: 901",
			"Resources.Jobs.Properties.DelaySeconds: must be from 0 to 900, is 901"},
		{"FIFO", "DelaySeconds: 5", "FifoQueue: true",
			"Resources.Jobs.Properties.FifoQueue: the embedded tier does not know this"},
		{"RedriveWithoutCount", ", maxReceiveCount: 4", "",
			"Resources.Jobs.Properties.RedrivePolicy.maxReceiveCount: must be a number from 1 to 1000"},
		{"VisibilityBelowTheTimeout", "VisibilityTimeout: 40", "VisibilityTimeout: 19",
			"Resources.Jobs.Properties.VisibilityTimeout: is 19s, but function Worker may take 20s"},
		{"RuleWithoutPattern", "EventPattern: {source: !Ref Sources, detail: {n: [{numeric: [\">\", 1]}]}}",
			"Description: x", "Resources.Rule.Properties.EventPattern: is missing"},
		{"RulePattern", "numeric:", "cidr:",
			"Resources.Rule.Properties.EventPattern: pattern.detail.n[0].cidr: this operator is not supported"},
		{"RuleSchedule", "EventPattern:", "ScheduleExpression: rate(1 minute)\n      EventPattern:",
			"Resources.Rule.Properties.ScheduleExpression: the embedded tier does not know this"},
		{"RuleBus", "EventPattern:", "EventBusName: other\n      EventPattern:",
			"Resources.Rule.Properties.EventBusName: must be !Ref of a resource, is other"},
		{"RuleTarget", "Targets: [{Id: a,", "Targets: [{Id: a, Input: x,",
			"Resources.Rule.Properties.Targets[0].Input: the embedded tier does not know this"},
		{"RuleState", "EventPattern:", "State: !Ref Stage\n      EventPattern:",
			"Resources.Rule.Properties.State: must be ENABLED or DISABLED, is \"test\""},
		{"StreamView", "NEW_AND_OLD_IMAGES", "NEW_IMAGE",
			"Resources.Table.Properties.StreamSpecification.StreamViewType: must be NEW_AND_OLD_IMAGES"},
		{"ParameterType", "Stage: {Type: String", "Stage: {Type: AWS::SSM::Parameter::Value<String>",
			"Parameters.Stage.Type: the embedded tier does not know the type"},
		{"ParameterRange", "Default: 7", "Default: 70", "Parameters.Size: must be at most 50, is 70"},
		{"ParameterChoice", "Default: test", "Default: dev", `Parameters.Stage: must be one of [test prod], is "dev"`},
		{"ParameterWithoutDefault", "Default: test, ", "", "Parameters.Stage: has no default, and no value was given"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := strings.Replace(whole, c.old, c.new, 1)
			if text == whole {
				t.Fatalf("%q is not in the template", c.old)
			}
			_, err := embedded.LoadTemplate([]byte(text), nil)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
	for name, given := range map[string]map[string]string{
		"Parameters.Sizze: the template has no such parameter": {"Sizze": "1"},
		`Parameters.Size: must be a number, is "x"`:            {"Size": "x"},
		"Parameters.Size: must be at least 1, is 0":            {"Size": "0"},
	} {
		if _, err := embedded.LoadTemplate([]byte(whole), given); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v: got %v, want %s", given, err, name)
		}
	}
	for _, text := range []string{"", "a: [", "- a"} {
		if _, err := embedded.LoadTemplate([]byte(text), nil); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
	t.Run("AllErrorsAtOnce", func(t *testing.T) {
		_, err := embedded.LoadTemplate([]byte(strings.NewReplacer("TRIM_HORIZON", "LATEST", "rate(5 minutes)",
			"never").Replace(whole)), nil)
		if err == nil || strings.Count(err.Error(), "\n") != 1 {
			t.Errorf("got %v, want two lines", err)
		}
	})
}
