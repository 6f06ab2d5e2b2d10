// C++: an exception that nobody catches.
//@ ends: signal 6
#include <iostream>
#include <stdexcept>

int main()
{
    std::cout << "before" << std::endl;
    throw std::runtime_error("nobody catches this");
}
