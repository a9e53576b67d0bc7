// SPDX-License-Identifier: GPL-2.0
#include "shapes.h"

namespace shapes
{

Counter::Counter(int start) : total(start)
{
	MARK("constructor");
}

Counter::~Counter()
{
	MARK("destructor");
	total = 0;
}

void Counter::add(int x)
{
	MARK("add");
	total += square(x);
}

int Counter::operator()(int x) const
{
	MARK("operator()");
	return total + x;
}

int Counter::Limits::clamp(int x)
{
	MARK("clamp");
	return x > 100 ? 100 : x;
}

}

static NOINLINE int hidden(int n)
{
	MARK("static");
	return n ^ 5;
}

namespace
{
NOINLINE int nameless(int n)
{
	MARK("anonymous namespace");
	return n + hidden(n);
}
}

int other(int n)
{
	shapes::Counter counter(n);

	MARK("other");
	return counter.each(n, [](int x) { return x + 1; }) + nameless(n) + shapes::scaled<long, 7>(n);
}

extern "C" int plain(int n)
{
	MARK("extern C");
	return n * 3;
}
