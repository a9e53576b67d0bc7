// SPDX-License-Identifier: GPL-2.0
// A program of known shape: functions that are inlined in each other, templates, lambdas, methods,
// operators and namespaces, in two units that share some of them.
#include "shapes.h"

static volatile int sink;

struct Loud : shapes::Counter {
	using Counter::Counter;
	void add(int x) override;
};

NOINLINE void Loud::add(int x)
{
	MARK("override");
	sink = x;
}

static INLINE int depth1(int n)
{
	MARK("depth");
	return n + sink;
}

static INLINE int depth2(int n)
{
	return depth1(n) * 2;
}

static INLINE int depth3(int n)
{
	int first = depth2(n);
	return first - depth1(n);
}

NOINLINE int deep(int n)
{
	return depth3(n) + 1;
}

static NOINLINE int lambdas(int n)
{
	shapes::Counter counter(n);
	auto called = [&](int x) NOINLINE {
		MARK("lambda");
		return x + n;
	};
	auto generic = [n](auto x) {
		MARK("generic lambda");
		return x * n;
	};
	struct Local {
		NOINLINE int run(int x)
		{
			MARK("local class");
			return x + sink;
		}
	} local;

	return counter.each(n, called) + counter.each(n, generic) + local.run(n) + counter(n);
}

int main(int argc, char **)
{
	shapes::Box<int> box{argc};
	Loud loud(argc);

	MARK("main");
	loud.add(argc);
	sink = deep(argc) + lambdas(argc) + other(argc) + plain(argc);
	sink = sink + (box << box).get() + shapes::Counter::Limits::clamp(argc);
	return (int)shapes::scaled<long, 7>(argc) + shapes::scaled<int, -2>(argc) > 0 ? 0 : 1;
}
