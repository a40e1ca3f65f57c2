package embedded

// queue reads a queue's properties. What concerns only how SQS keeps it is passed over.
func (s *section) queue(id string) *QueueWiring {
	q := &QueueWiring{
		Name: id, Visibility: seconds(s.number("VisibilityTimeout", 30, 0, 43_200)), Delay: seconds(s.number("DelaySeconds", 0, 0, 900)),
	}
	if s.has("RedrivePolicy") {
		redrive := s.section("RedrivePolicy")
		q.DeadLetters = redrive.resource("deadLetterTargetArn", "Arn", typeQueue)
		q.MaxReceives = redrive.number("maxReceiveCount", 0, 1, 1000)
		if q.MaxReceives == 0 {
			s.t.fail(redrive.at("maxReceiveCount"), "must be a number from 1 to 1000")
		}
		redrive.close()
	}
	s.close("KmsDataKeyReusePeriodSeconds", "KmsMasterKeyId", "MessageRetentionPeriod", "QueueName", "RedriveAllowPolicy",
		"SqsManagedSseEnabled", "Tags")
	return q
}

// rule reads a rule of the default event bus; false for one that is switched off.
func (s *section) rule(id string) (RuleWiring, bool) {
	rule := RuleWiring{Name: id}
	if !s.has("EventPattern") {
		s.t.fail(s.at("EventPattern"), "is missing")
	} else if doc := s.value("EventPattern"); doc != nil {
		var err error
		if rule.Pattern, err = compilePattern(doc); err != nil {
			s.t.fail(s.at("EventPattern"), "%w", err)
		}
	}
	for i, n := range s.list("Targets") {
		target := s.t.section(s.item("Targets", i), n)
		rule.Queues = append(rule.Queues, target.resource("Arn", "Arn", typeQueue))
		target.close("Id", "DeadLetterConfig", "RetryPolicy")
	}
	state := s.text("State")
	if state != "" && state != "ENABLED" && state != "DISABLED" {
		s.t.fail(s.at("State"), "must be ENABLED or DISABLED, is %q", state)
	}
	s.close("Description", "Name")
	return rule, state != "DISABLED"
}

// checkVisibility holds queues to what Lambda demands: a message stays invisible for at least as long as a function may take.
func (t *template) checkVisibility(w *Wiring) {
	readers := map[string]string{}
	for _, f := range w.Functions {
		for _, s := range f.Queues {
			q := w.Queues[s.Queue]
			switch {
			case q == nil: // complained of already
			case q.Visibility < f.Timeout:
				t.fail("Resources."+s.Queue+".Properties.VisibilityTimeout", "is %s, but function %s may take %s", q.Visibility, f.LogicalID, f.Timeout)
			case readers[s.Queue] != "":
				t.fail("Resources."+s.Queue, "two functions read it: %s and %s", readers[s.Queue], f.LogicalID)
			}
			readers[s.Queue] = f.LogicalID
		}
	}
}
