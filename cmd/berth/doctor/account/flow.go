package account

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"time"

	"berth/cmd/berth/doctor"
)

// readRules reads the rules with their targets. The physical id of a rule on another bus than the
// default one is BUS|NAME.
func (r *reader) readRules(ctx context.Context, f *doctor.Facts) {
	f.Rules = readEach(f, f.Plan.Rules, func(id, physical string) (doctor.Rule, error) {
		rule := doctor.Rule{Name: physical[strings.IndexByte(physical, '|')+1:], Bus: "default"}
		if bus := f.Plan.Rules[id].Bus; bus != "" {
			rule.Bus = f.Stack.Resources[bus].ID
		}
		var out struct{ State string }
		if err := r.callJSON(ctx, events, "DescribeRule",
			map[string]any{"Name": rule.Name, "EventBusName": rule.Bus}, &out); err != nil {
			return rule, err
		}
		rule.State = out.State
		var targets struct {
			Targets []struct{ Arn string }
		}
		err := r.callJSON(ctx, events, "ListTargetsByRule",
			map[string]any{"Rule": rule.Name, "EventBusName": rule.Bus}, &targets)
		rule.Targets.Err = err
		for _, t := range targets.Targets {
			rule.Targets.Got = append(rule.Targets.Got, t.Arn)
		}
		return rule, nil
	})
}

// readSchedules reads the schedules, which are in the default group.
func (r *reader) readSchedules(ctx context.Context, f *doctor.Facts) {
	f.Schedules = readEach(f, f.Plan.Schedules, func(_, name string) (doctor.Schedule, error) {
		var out struct {
			State, ScheduleExpression  string
			Target, FlexibleTimeWindow json.RawMessage
		}
		if err := r.getPath(ctx, scheduler, "GetSchedule", "/schedules/"+url.PathEscape(name), &out); err != nil {
			return doctor.Schedule{}, err
		}
		var target struct{ Arn string }
		err := json.Unmarshal(out.Target, &target)
		return doctor.Schedule{Name: name, State: out.State, Expression: out.ScheduleExpression, Target: target.Arn,
			Settings: string(out.Target), Window: string(out.FlexibleTimeWindow)}, err
	})
}

// readQueues reads how many messages wait in each queue, and for how long.
func (r *reader) readQueues(ctx context.Context, f *doctor.Facts) {
	f.Queues = readEach(f, f.Plan.Queues, func(_, queue string) (doctor.Queue, error) {
		var out struct{ Attributes map[string]string }
		if err := r.callJSON(ctx, sqs, "GetQueueAttributes", map[string]any{"QueueUrl": queue,
			"AttributeNames": []string{"ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible",
				"QueueArn",
				"RedrivePolicy"}}, &out); err != nil {
			return doctor.Queue{}, err
		}
		q := doctor.Queue{URL: queue, ARN: out.Attributes["QueueArn"]}
		q.Visible, _ = strconv.Atoi(out.Attributes["ApproximateNumberOfMessages"]) // a number always
		q.InFlight, _ = strconv.Atoi(out.Attributes["ApproximateNumberOfMessagesNotVisible"])
		var redrive struct {
			ARN string `json:"deadLetterTargetArn"`
		}
		if policy := out.Attributes["RedrivePolicy"]; policy != "" {
			if err := json.Unmarshal([]byte(policy), &redrive); err != nil {
				return q, err
			}
		}
		q.DeadLettersARN = redrive.ARN
		if q.Visible+q.InFlight > 0 {
			q.OldestAge = r.readAge(ctx, queue[strings.LastIndexByte(queue, '/')+1:])
		}
		return q, nil
	})
}

// ageWindow is how far back the age of a queue's oldest message is looked for. The metric is
// published every minute, some minutes late.
const ageWindow = 15 * time.Minute

// readAge returns the age of a queue's oldest message, and nil if CloudWatch does not have it or
// may not be asked: the number of messages says enough.
func (r *reader) readAge(ctx context.Context, queue string) *time.Duration {
	now := r.options.AWS.Now()
	var out struct {
		Datapoints []struct{ Timestamp, Maximum float64 }
	}
	err := r.callJSON(ctx, cloudWatch, "GetMetricStatistics", map[string]any{"Namespace": "AWS/SQS",
		"MetricName": "ApproximateAgeOfOldestMessage", "Statistics": []string{"Maximum"}, "Period": 60,
		"Dimensions": []map[string]string{{"Name": "QueueName", "Value": queue}},
		"StartTime":  now.Add(-ageWindow).Unix(), "EndTime": now.Unix()}, &out)
	if err != nil || len(out.Datapoints) == 0 {
		return nil
	}
	newest := out.Datapoints[0]
	for _, d := range out.Datapoints {
		if d.Timestamp > newest.Timestamp {
			newest = d
		}
	}
	return new(time.Duration(newest.Maximum * float64(time.Second)))
}
