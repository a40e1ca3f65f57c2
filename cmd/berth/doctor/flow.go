package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// checkMappings judges what polls queues and the table's stream.
func checkMappings(f *Facts) Check {
	return newCheck("", countOf(len(f.Plan.Mappings), "event source mapping"),
		sortedReads(f, f.Plan.Mappings, f.Mappings, f.judgeMapping)...)
}

// judgeMapping judges one mapping. A failed last batch is a warning: it is tried again.
func (f *Facts) judgeMapping(id string, p PlannedMapping, got Mapping) (found []Finding) {
	source := "the table's stream"
	if p.Queue != "" {
		source = p.Queue
	}
	thing := fmt.Sprintf("%s, from %s to %s", id, source, f.Plan.folderOf(p.Function))
	switch got.State {
	case "Enabled":
	case "Creating", "Enabling", "Updating":
		found = append(found, Finding{Verdict: Warn, Thing: thing, Value: got.State, Expected: "Enabled",
			Remedy: "Wait a minute, and ask again"})
	default:
		found = append(found, Finding{Verdict: Fail, Thing: thing,
			Value:    strings.TrimSpace(got.State + " " + got.Reason),
			Expected: "Enabled: nothing invokes the function from there",
			Remedy:   "Enable it; what waits in the queue or stream is then handled",
			Command:  f.aws("lambda update-event-source-mapping --uuid %s --enabled", got.ID)})
	}
	if p.Queue == "" && f.Table.Err == nil && f.Table.Got.StreamARN != "" && got.Source != f.Table.Got.StreamARN {
		found = append(found, Finding{Verdict: Fail, Thing: thing, Value: "it reads " + got.Source,
			Expected: f.Table.Got.StreamARN, Remedy: "The stream was switched off and on; deploy again",
			Command: "make deploy"})
	}
	if strings.HasPrefix(got.LastResult, "PROBLEM") || strings.HasPrefix(got.LastResult, "FAILED") {
		found = append(found, Finding{Verdict: Warn, Thing: thing, Value: "its last batch: " + got.LastResult,
			Expected: "OK",
			Remedy:   "Look at the function's log", Command: f.logCommand(p.Function)})
	}
	return found
}

// logCommand returns a command that shows a function's log.
func (f *Facts) logCommand(function string) string {
	return f.folderLogCommand(f.Plan.folderOf(function))
}

// folderLogCommand returns a command that shows what the function of a folder has logged within the last
// hour, with either version of the AWS CLI.
func (f *Facts) folderLogCommand(folder string) string {
	return f.aws("logs filter-log-events --log-group-name /berth/%s/%s --start-time $(($(date +%%s) - 3600))000 "+
		"--query 'events[].message' --output text", f.Stack.Name, folder)
}

// checkRules judges the rules that bring events.
func checkRules(f *Facts) Check {
	return newCheck("", countOf(len(f.Plan.Rules), "rule")+" with their targets",
		sortedReads(f, f.Plan.Rules, f.Rules, f.judgeRule)...)
}

func (f *Facts) judgeRule(id string, p PlannedRule, got Rule) (found []Finding) {
	thing := "rule " + id
	if got.State != "ENABLED" && got.State != "ENABLED_WITH_ALL_CLOUDTRAIL_MANAGEMENT_EVENTS" {
		found = append(found, Finding{Verdict: Fail, Thing: thing, Value: got.State,
			Expected: "ENABLED: its events are lost", Remedy: "Enable it; the hourly sweep makes up for what was lost",
			Command: f.aws("events enable-rule --name %s --event-bus-name %s", got.Name, got.Bus)})
	}
	if got.Targets.Err != nil {
		return append(found, notChecked("the targets of "+thing, got.Targets.Err))
	}
	for _, queue := range p.Queues {
		arn := f.Queues[queue].Got.ARN
		if arn != "" && !slices.Contains(got.Targets.Got, arn) {
			found = append(found, Finding{Verdict: Fail, Thing: thing,
				Value: fmt.Sprintf("its targets are %q", got.Targets.Got), Expected: arn,
				Remedy: "Give it the queue as a target again",
				Command: f.aws("events put-targets --rule %s --event-bus-name %s --targets "+
					"'Id=%s,Arn=%s,DeadLetterConfig={Arn=%s}'", got.Name, got.Bus, queue, arn,
					f.Queues[p.DeadLetters].Got.ARN)})
		}
	}
	return found
}

// checkSchedules judges the schedules.
func checkSchedules(f *Facts) Check {
	return newCheck("", countOf(len(f.Plan.Schedules), "schedule"),
		sortedReads(f, f.Plan.Schedules, f.Schedules, f.judgeSchedule)...)
}

func (f *Facts) judgeSchedule(id string, p PlannedSchedule, got Schedule) (found []Finding) {
	if got.State != "ENABLED" {
		found = append(found, Finding{Verdict: Fail, Thing: "schedule " + id, Value: got.State,
			Expected: "ENABLED: nothing makes up for lost events and wake-ups",
			Remedy:   "Enable it; the command repeats its other settings, which an update would drop",
			Command: f.aws("scheduler update-schedule --name %s --state ENABLED --schedule-expression '%s' "+
				"--flexible-time-window '%s' --target '%s'", got.Name, got.Expression, got.Window, got.Settings)})
	}
	if name := f.physical(p.Function); name != "" && !strings.HasSuffix(got.Target, ":function:"+name) {
		found = append(found, Finding{Verdict: Fail, Thing: "schedule " + id, Value: "it invokes " + got.Target,
			Expected: "function " + name, Remedy: "Deploy again", Command: "make deploy"})
	}
	return found
}

// queueAgeFails is more than any message waits while its function works.
const queueAgeFails = 10 * time.Minute

// checkQueues judges the queues that functions poll: their oldest messages, and where messages go
// that fail too often.
func checkQueues(f *Facts) Check {
	polled := map[string]PlannedQueue{}
	for id, q := range f.Plan.Queues {
		if f.Plan.consumerOf(id) != "" {
			polled[id] = q
		}
	}
	return newCheck("", countOf(len(polled), "queue"), sortedReads(f, polled, f.Queues, f.judgeQueue)...)
}

func (f *Facts) judgeQueue(id string, p PlannedQueue, got Queue) (found []Finding) {
	function := f.Plan.consumerOf(id)
	if got.OldestAge != nil && *got.OldestAge >= queueAgeFails {
		found = append(found, Finding{Verdict: Fail, Thing: id,
			Value: fmt.Sprintf("%s, the oldest for %s", countOf(got.Visible, "message"),
				got.OldestAge.Round(time.Second)),
			Expected: fmt.Sprintf("less than %s: %s does not keep up, or fails", queueAgeFails,
				f.Plan.folderOf(function)),
			Remedy: "Look at the function's log, and at its mapping above", Command: f.logCommand(function)})
	}
	letters := f.Queues[p.DeadLetters].Got.ARN
	if p.DeadLetters != "" && letters != "" && got.DeadLettersARN != letters {
		found = append(found, Finding{Verdict: Fail, Thing: id,
			Value:    fmt.Sprintf("its dead letters go to %q", got.DeadLettersARN),
			Expected: letters,
			Remedy:   "Deploy again, after a change of the queue's redrive policy by hand has been undone",
			Command:  "make deploy"})
	}
	return found
}

// checkDeadLetters judges the queues of messages and records that functions could not handle.
func checkDeadLetters(f *Facts) Check {
	letters := map[string]PlannedQueue{}
	for id, q := range f.Plan.Queues {
		if f.Plan.consumerOf(id) == "" {
			letters[id] = q
		}
	}
	return newCheck("", countOf(len(letters), "dead-letter queue"),
		sortedReads(f, letters, f.Queues, f.judgeDeadLetters)...)
}

// judgeDeadLetters finds messages. Those of a queue can be put back; what else was given up cannot,
// and the schedules have made up for it.
func (f *Facts) judgeDeadLetters(id string, p PlannedQueue, got Queue) []Finding {
	if got.Visible+got.InFlight == 0 {
		return nil
	}
	value := countOf(got.Visible+got.InFlight, "message")
	if got.OldestAge != nil {
		value += ", the oldest for " + got.OldestAge.Round(time.Second).String()
	}
	if p.Source == "" {
		what, remedy := "stream records that a function gave up",
			"Read which records (they stay in the stream for a day) and why in the function's log. "+
				"Schedules and sweeps have done their work. Then empty the queue"
		switch {
		case p.Rules:
			what, remedy = "events that rules could not put into their queues",
				"Read which rule and why in the messages' attributes RULE_ARN and ERROR_MESSAGE, and mend the "+
					"queue's policy or key. The hourly sweep has done their work. Then empty the queue"
		case p.Schedules != "":
			what = "scheduled runs of " + f.Plan.folderOf(p.Schedules) + " that failed"
			remedy = "Read why in responsePayload of the messages and in the function's log (" +
				f.logCommand(p.Schedules) + "). The next run does their work. Then empty the queue"
		}
		return []Finding{{Verdict: Fail, Thing: id, Value: value + ": " + what, Expected: "none", Remedy: remedy,
			Command: f.aws("sqs purge-queue --queue-url %s", got.URL)}}
	}
	function := f.Plan.consumerOf(p.Source)
	return []Finding{{Verdict: Fail, Thing: id,
		Value:    value + " of " + p.Source + ", which " + f.Plan.folderOf(function) + " could not handle",
		Expected: "none",
		Remedy: "Find the reason in the function's log (" + f.logCommand(function) + "). Then put them back, or " +
			"empty the queue with `aws sqs purge-queue`: the hourly sweep has done their work",
		Command: f.aws("sqs start-message-move-task --source-arn %s", got.ARN)}}
}
